//! The typed values that settings hold, beyond what the standard library names.

mod amounts;
mod isolation;
mod logs;
mod names;
mod network;
mod overrides;
mod paths;
mod pools;
mod sending;
mod tls;
mod upstreams;

pub use self::amounts::{Count, Rate};
pub use self::isolation::{Destination, Sandbox};
pub use self::logs::{AccessFormat, AccessTarget, ErrorTarget, LogLevel};
pub use self::names::{HostPattern, UserName};
pub use self::network::ForwardedField;
pub use self::overrides::{AllowOverride, OverrideClass};
pub use self::paths::{EncodedSlashes, Includes, RootTemplate, Symlinks, TryStep};
pub use self::pools::{PoolMode, Sapi};
pub use self::sending::ContentCoding;
pub use self::tls::{AcmeChallenge, CertificateSource, CipherPolicy, ClientVerify, TlsVersion};
pub use self::upstreams::{Upstream, UpstreamScheme};
