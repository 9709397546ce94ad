//! Leases, for the cache: of all processes that miss a result, one makes it.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use client::{Leased, LoadOptions, Reply};
use pyo3::prelude::*;

use crate::arguments::{Word, duration};
use crate::client::{Client, end_after};
use crate::content::Content;
use crate::errors::{OrRaise, exception};
use crate::view::View;

/// After so long in a wait Python looks for signals.
const SLICE: Duration = Duration::from_secs(1);

/// Returns what there is of `key`: a view or `None`, and the token where the caller is to make it.
/// Waits up to `wait` for another's, where there is nothing; takes what has expired where `stale`.
#[pyfunction]
#[pyo3(signature = (client, key, lease, wait, stale))]
pub fn lget(
    py: Python<'_>,
    client: &Bound<'_, Client>,
    key: &Bound<'_, PyAny>,
    lease: &Bound<'_, PyAny>,
    wait: &Bound<'_, PyAny>,
    stale: bool,
) -> PyResult<(Option<View>, Option<i64>)> {
    let key = Word::of_key(key)?;
    let key = key.bytes()?;
    let options = LoadOptions::new().lease_for(duration(lease)?);
    let options = if stale { options.stale_for(Duration::ZERO) } else { options };
    let client = client.get().client(py)?;
    let end = end_after(Some(duration(wait)?));
    loop {
        let left = end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
        let options = options.clone().waits_for(left.min(SLICE));
        return Ok(match py.detach(|| client.lget(key, &options)).or_raise(py)? {
            Leased::Hit(value) | Leased::Stale(value) => (Some(View::taken(value)), None),
            Leased::Win(lease) => (None, Some(lease.into_token())),
            Leased::StaleWin(value, lease) => (Some(View::taken(value)), Some(lease.into_token())),
            Leased::Busy(_) if left > SLICE => {
                py.check_signals()?;
                continue;
            }
            Leased::Busy(_) => (None, None),
        });
    }
}

/// Stores `value` as `put` does, for `ttl` seconds and `stale` more as one that has expired, where
/// `token` is that of a lease that goes on; returns whether it did.
#[pyfunction]
#[pyo3(signature = (client, key, token, value, ttl, stale))]
pub fn lfill(
    py: Python<'_>,
    client: &Bound<'_, Client>,
    key: &Bound<'_, PyAny>,
    token: i64,
    value: &Bound<'_, PyAny>,
    ttl: &Bound<'_, PyAny>,
    stale: &Bound<'_, PyAny>,
) -> PyResult<bool> {
    let key = Word::of_key(key)?;
    let key = key.bytes()?;
    let [ttl, stale] = [ttl, stale].map(duration);
    let [ttl, stale] = [ttl?, stale?].map(|it| it.as_nanos().div_ceil(1_000_000).to_string());
    let token = token.to_string();
    let client = client.get().client(py)?;
    let reply = Content::of(value)?.stored(py, |parts| {
        let value = parts.as_slice().map_or_else(|| Cow::Owned(parts.to_vec()), Cow::Borrowed);
        let options = [&b"PX"[..], ttl.as_bytes(), b"STALE", stale.as_bytes()];
        let request = [&[&b"LFILL"[..], key, &value, token.as_bytes()], &options[..]].concat();
        client.call(&request)
    })?;
    match reply {
        Reply::Integer(stored) => Ok(stored == 1),
        other => Err(exception(py, "ProtocolError", &format!("LFILL replied {other:?}"))),
    }
}
