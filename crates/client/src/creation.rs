//! A value that is being written, before any client can read it.

use std::fmt;
use std::ops::{Deref, DerefMut};

#[cfg(feature = "tokio")]
use crate::async_client::AsyncClient;
use crate::client::Client;
use crate::error::ClientError;
use crate::options::SetOptions;
use crate::posts::PutValue;
use crate::session_uploads::Mode;
use crate::upload_buffers::Upload;

/// Bytes that become the value of a key when they are sealed. Dropped before, they are gone, and
/// the key is as it was.
pub struct Creation<C = Client> {
    client: C,
    key: Vec<u8>,
    bytes: Bytes,
}

enum Bytes {
    Owned(Vec<u8>),
    /// Memory that the server shares: the value lies where it will be read.
    Uploaded(Upload),
}

impl<C> Creation<C> {
    /// Returns the `length` bytes of `upload`, or of this process where there is none.
    ///
    /// # Errors
    /// [`ClientError::NoMemory`] where this process has not so many.
    pub(crate) fn new(
        client: C,
        key: &[u8],
        length: usize,
        upload: Option<Upload>,
    ) -> Result<Creation<C>, ClientError> {
        let bytes = match upload {
            Some(upload) => Bytes::Uploaded(upload),
            None => {
                let mut bytes = Vec::new();
                bytes.try_reserve_exact(length).map_err(|_| ClientError::NoMemory(length))?;
                bytes.resize(length, 0);
                Bytes::Owned(bytes)
            }
        };
        Ok(Creation { client, key: key.to_vec(), bytes })
    }

    /// Returns the key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }
}

impl Creation<Client> {
    /// Makes the bytes the value of the key, without a time to live.
    ///
    /// # Errors
    /// As [`Client::put`].
    pub fn seal(self) -> Result<(), ClientError> {
        self.seal_with(&SetOptions::new()).map(|_| ())
    }

    /// Makes the bytes the value of the key as `options` say; returns whether their condition held.
    ///
    /// # Errors
    /// As [`Client::put_with`].
    pub fn seal_with(self, options: &SetOptions) -> Result<bool, ClientError> {
        match self.bytes {
            Bytes::Owned(bytes) => self.client.put_with(&self.key, &bytes, options),
            Bytes::Uploaded(upload) => self.client.commit(&self.key, upload, Mode::Adopt, options),
        }
    }

    /// As [`Creation::seal_with`], without waiting for the server: see [`Client::post`].
    ///
    /// # Errors
    /// As [`Client::post`].
    pub fn post(self, options: &SetOptions) -> Result<(), ClientError> {
        let value = match self.bytes {
            Bytes::Owned(bytes) => return self.client.post(&self.key, bytes, options),
            Bytes::Uploaded(upload) => PutValue::Upload(upload),
        };
        self.client.post_value(&self.key, value, options)
    }
}

#[cfg(feature = "tokio")]
impl Creation<AsyncClient> {
    /// Makes the bytes the value of the key, without a time to live.
    ///
    /// # Errors
    /// As [`Client::put`].
    pub async fn seal(self) -> Result<(), ClientError> {
        self.seal_with(&SetOptions::new()).await.map(|_| ())
    }

    /// Makes the bytes the value of the key as `options` say; returns whether their condition held.
    ///
    /// # Errors
    /// As [`Client::put_with`].
    pub async fn seal_with(self, options: &SetOptions) -> Result<bool, ClientError> {
        match self.bytes {
            Bytes::Owned(bytes) => self.client.put_with(&self.key, &bytes, options).await,
            Bytes::Uploaded(upload) => {
                self.client.commit(&self.key, upload, Mode::Adopt, options).await
            }
        }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Owned(bytes) => bytes,
            Bytes::Uploaded(upload) => upload,
        }
    }
}

impl DerefMut for Bytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Bytes::Owned(bytes) => bytes,
            Bytes::Uploaded(upload) => upload,
        }
    }
}

impl<C> Deref for Creation<C> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl<C> DerefMut for Creation<C> {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl<C> fmt::Debug for Creation<C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Creation({} bytes of {})", self.len(), self.key.escape_ascii())
    }
}
