//! Pools of PHP processes.

/// The number of workers that a pool keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolMode {
    /// The number that requests need and the memory has room for.
    Auto,
    /// All of them.
    Static,
    /// The busy ones, and some that are free.
    Dynamic,
    /// The number that requests need.
    OnDemand,
}

impl PoolMode {
    /// Every mode.
    pub const ALL: [PoolMode; 4] =
        [PoolMode::Auto, PoolMode::Static, PoolMode::Dynamic, PoolMode::OnDemand];

    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            PoolMode::Auto => "auto",
            PoolMode::Static => "static",
            PoolMode::Dynamic => "dynamic",
            PoolMode::OnDemand => "ondemand",
        }
    }
}

/// The name under which PHP says that it runs: `PHP_SAPI`, `php_sapi_name()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sapi {
    /// The name of Apache's module.
    Apache2handler,
    /// The name of php-fpm.
    FpmFcgi,
}

impl Sapi {
    /// Every name.
    pub const ALL: [Sapi; 2] = [Sapi::Apache2handler, Sapi::FpmFcgi];

    /// The name as PHP gives it.
    pub fn name(self) -> &'static str {
        match self {
            Sapi::Apache2handler => "apache2handler",
            Sapi::FpmFcgi => "fpm-fcgi",
        }
    }
}
