//! The enum of all transports, which a macro makes from their list: a method of it is a match, and
//! calls that of the transport that there is.
//!
//! What the trait has and the enum lacks does not compile where it is asked for, so that nothing is
//! answered by a default of the trait.

/// Declares the modules of the list and the enums over their types.
macro_rules! transports {
    ($($(#[$attribute:meta])* mod $module:ident: $name:ident;)+) => {
        $($(#[$attribute])* pub mod $module;)+

        /// Any transport. Its methods are those of [`Transport`].
        pub enum AnyTransport {
            $($(#[$attribute])* $name($module::$name),)+
        }

        /// A connection by any transport that no worker serves yet.
        pub enum Pending {
            $($(#[$attribute])* $name(<$module::$name as Transport>::Pending),)+
        }

        /// How the connections by each transport are listened for, in the order of the list.
        pub static LISTENS: &[Option<Listens>] =
            &[$($(#[$attribute])* <$module::$name as Transport>::LISTENS,)+];

        impl Pending {
            pub fn open(self, context: &OpenContext<'_>) -> Option<(AnyTransport, Endpoint)> {
                match self {
                    $($(#[$attribute])* Pending::$name(pending) => {
                        let (transport, endpoint) = Transport::open(pending, context)?;
                        Some((AnyTransport::$name(transport), endpoint))
                    })+
                }
            }
        }

        impl AsFd for AnyTransport {
            fn as_fd(&self) -> BorrowedFd<'_> {
                match self { $($(#[$attribute])* AnyTransport::$name(one) => one.as_fd(),)+ }
            }
        }

        impl AnyTransport {
            #[inline]
            pub fn is_polled(&self) -> bool {
                match self {
                    $($(#[$attribute])* AnyTransport::$name(_) => $module::$name::IS_POLLED,)+
                }
            }

            #[inline]
            pub fn receives_head_first(&self) -> bool {
                match self {
                    $($(#[$attribute])*
                    AnyTransport::$name(_) => $module::$name::RECEIVES_HEAD_FIRST,)+
                }
            }

            pub fn speaks_memcached(&self) -> bool {
                match self {
                    $($(#[$attribute])*
                    AnyTransport::$name(_) => $module::$name::SPEAKS_MEMCACHED,)+
                }
            }

            #[inline]
            pub fn receive(
                &mut self,
                buffer: &mut [u8],
                counters: &WorkerCounters,
            ) -> Result<usize, TransportEnd> {
                match self {
                    $($(#[$attribute])*
                    AnyTransport::$name(one) => one.receive(buffer, counters),)+
                }
            }

            #[inline]
            pub fn receive_appending(
                &mut self,
                buffer: &mut Vec<u8>,
                counters: &WorkerCounters,
            ) -> Result<usize, TransportEnd> {
                match self {
                    $($(#[$attribute])*
                    AnyTransport::$name(one) => one.receive_appending(buffer, counters),)+
                }
            }

            pub fn receive_value(
                &mut self,
                block: &mut ReservedBlock,
                behind: &mut [u8],
                counters: &WorkerCounters,
            ) -> Result<Range<usize>, TransportEnd> {
                match self {
                    $($(#[$attribute])*
                    AnyTransport::$name(one) => one.receive_value(block, behind, counters),)+
                }
            }

            #[inline]
            pub fn send(
                &mut self,
                output: &mut Output,
                descriptors: &[SharedDescriptor],
                counters: &WorkerCounters,
            ) -> Result<Sent, TransportEnd> {
                match self {
                    $($(#[$attribute])*
                    AnyTransport::$name(one) => one.send(output, descriptors, counters),)+
                }
            }

            pub fn descriptor_stream(&self) -> Option<&Arc<Stream>> {
                match self {
                    $($(#[$attribute])* AnyTransport::$name(one) => one.descriptor_stream(),)+
                }
            }

            #[inline]
            pub fn memory_bytes(&self) -> usize {
                match self { $($(#[$attribute])* AnyTransport::$name(one) => one.memory_bytes(),)+ }
            }

            #[inline]
            pub fn interpret(&self, ready: Ready, counters: &WorkerCounters) -> Ready {
                match self {
                    $($(#[$attribute])*
                    AnyTransport::$name(one) => one.interpret(ready, counters),)+
                }
            }

            #[inline]
            pub fn has_requests(&self) -> bool {
                match self { $($(#[$attribute])* AnyTransport::$name(one) => one.has_requests(),)+ }
            }

            pub fn has_room(&mut self) -> bool {
                match self { $($(#[$attribute])* AnyTransport::$name(one) => one.has_room(),)+ }
            }

            pub fn arm(&mut self, wants_requests: bool, wants_room: bool) -> bool {
                match self {
                    $($(#[$attribute])*
                    AnyTransport::$name(one) => one.arm(wants_requests, wants_room),)+
                }
            }

            pub fn set_busy_poll_limit(&self, limit: Duration) {
                match self {
                    $($(#[$attribute])*
                    AnyTransport::$name(one) => one.set_busy_poll_limit(limit),)+
                }
            }

            pub fn peer_processor(&self) -> Option<usize> {
                match self {
                    $($(#[$attribute])* AnyTransport::$name(one) => one.peer_processor(),)+
                }
            }

            pub fn forget(&self, id: u64, poller: &Poller, shared: &ServerState) {
                match self {
                    $($(#[$attribute])*
                    AnyTransport::$name(one) => one.forget(id, poller, shared),)+
                }
            }
        }
    };
}
