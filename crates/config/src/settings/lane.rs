//! The keys of `[[site.php.lane]]`.

use std::time::Duration;

use crate::kinds::{
    AtLeast, List, MethodName, NamedValue, Optional, PathGlob, PlainName, Proxies, Text, TimeSpan,
    Within,
};
use crate::listener::TrustedProxies;
use crate::section::section;

section! {
    /// A lane of a site's pool: requests that wait apart from the others, so that a slow page or a
    /// crawler takes workers from nobody else. Each `[[site.php.lane]]` begins another. A request
    /// belongs to the first lane that fits: each key that is given must fit, and of a list any one
    /// value. Requests that fit no lane have one of their own, called `-`. Lanes with requests that
    /// wait take turns. [pools.md](pools.md) has examples.
    pub struct Lane {
        /// The name in `howdah status` and metrics.
        name ("name"): String as PlainName = String::new(),
            "Must be given: figures are shown under this name.";
        /// Paths of URLs: `"/search"`, `"/api/*"`. `*` stands for any characters, `?` for one. The
        /// path is compared decoded and without the query string, as the client has sent it and not
        /// as directives rewrite it.
        path ("path"): Vec<String> as List<PathGlob> = Vec::new(),
            "Unset is every path.";
        /// Methods of requests, as `["POST"]`.
        method ("method"): Vec<String> as List<MethodName> = Vec::new(),
            "Unset is every method.";
        /// Parameters of the query string: `"s"` for any request that has one called so,
        /// `"page=5*"` for one with such a value.
        parameter ("parameter"): Vec<String> as List<NamedValue> = Vec::new(),
            "Unset is every query string.";
        /// Cookies: `"session"` for any request that has one called so, `"role=guest*"` for one
        /// with such a value. A `*` may also stand in the name: `"wordpress_logged_in_*"`.
        cookie ("cookie"): Vec<String> as List<NamedValue> = Vec::new(),
            "Unset is every request, with cookies and without.";
        /// Names of programs as they tell them in `User-Agent`, in any case: `"*bot*"`.
        user_agent ("user_agent"): Vec<String> as List<Text> = Vec::new(),
            "Unset is every program.";
        /// Addresses of clients and networks: `["192.0.2.0/24"]`. Behind a trusted proxy it is the
        /// client's address that counts.
        address ("address"): TrustedProxies as Proxies = TrustedProxies::default(),
            "Unset is every address.";
        /// Workers that the lane's requests may occupy at once.
        workers ("workers"): Option<usize> as Optional<AtLeast<usize, 1>> = None,
            "Unset is all but one of the site's workers. So is more: one worker always stays for \
                other requests.";
        /// Requests of the lane that may wait for a worker. Beyond it: 503 with Retry-After. They
        /// count for the site's `queue`, too.
        queue ("queue"): Option<usize> as Optional<AtLeast<usize, 0>> = None,
            "Unset is the site's `queue`.";
        /// The time that a request of the lane may wait for a worker. Beyond it: 503 with
        /// Retry-After.
        queue_timeout ("queue_timeout"): Option<Duration> as Optional<TimeSpan> = None,
            "Unset is the site's `queue_timeout`.";
        /// Number of requests that the lane begins when it is its turn. With 3, it gets three
        /// workers for each that a lane with 1 gets, as long as requests of both wait.
        weight ("weight"): u64 as Within<1, 1000> = 1,
            "Lanes share equally, as the requests of no lane do.";
    }
}
