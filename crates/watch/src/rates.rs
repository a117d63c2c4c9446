//! The changes between two states, per second.

use std::collections::HashMap;

use crate::state::ShownServer;

/// Events per second.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rates {
    /// Requests of all sites.
    pub(crate) requests: f64,
    /// Requests, by site.
    sites: HashMap<String, f64>,
    /// Seconds on a processor of all workers, by site.
    pools: HashMap<String, f64>,
    /// Seconds on a processor, by process.
    workers: HashMap<u64, f64>,
}

impl Rates {
    /// Compares `now` with an earlier state. Sites and pools that were not there before have no
    /// rate.
    pub(crate) fn of(before: &ShownServer, now: &ShownServer) -> Rates {
        let passed = now.time - before.time;
        if passed <= 0.0 {
            return Rates::default();
        }
        let rate = |before: u64, now: u64| now.saturating_sub(before) as f64 / passed;
        let former: HashMap<&str, u64> =
            before.sites.iter().map(|site| (site.name.as_str(), site.requests)).collect();
        let sites = now.sites.iter().filter_map(|site| {
            let former = former.get(site.name.as_str())?;
            Some((site.name.clone(), rate(*former, site.requests)))
        });
        let share = |before: f64, now: f64| (now - before).max(0.0) / passed;
        let former: HashMap<&str, f64> = pools(before).collect();
        let pools = pools(now).filter_map(|(name, cpu)| {
            let former = former.get(name)?;
            Some((name.to_owned(), share(*former, cpu)))
        });
        let former: HashMap<u64, f64> = workers(before).collect();
        let workers = workers(now).filter_map(|(pid, cpu)| {
            let former = former.get(&pid)?;
            Some((pid, share(*former, cpu)))
        });
        Rates {
            requests: rate(before.requests, now.requests),
            sites: sites.collect(),
            pools: pools.collect(),
            workers: workers.collect(),
        }
    }

    /// Requests of a site. `None` if it is not known yet.
    pub(crate) fn site(&self, name: &str) -> Option<f64> {
        self.sites.get(name).copied()
    }

    /// The share of a processor that all workers of a site had; above 1 for several processors.
    /// `None` if it is not known yet.
    pub(crate) fn pool(&self, site: &str) -> Option<f64> {
        self.pools.get(site).copied()
    }

    /// The share of a processor that a worker had. `None` if it is not known yet.
    pub(crate) fn worker(&self, pid: u64) -> Option<f64> {
        self.workers.get(&pid).copied()
    }
}

fn pools(status: &ShownServer) -> impl Iterator<Item = (&str, f64)> {
    status
        .sites
        .iter()
        .filter_map(|site| Some((site.name.as_str(), site.pool.as_ref()?.cpu)))
}

fn workers(status: &ShownServer) -> impl Iterator<Item = (u64, f64)> {
    let pools = status.sites.iter().filter_map(|site| site.pool.as_ref());
    pools.flat_map(|pool| pool.workers.iter().map(|worker| (worker.pid, worker.cpu)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(time: f64, requests: u64, cpu: f64) -> ShownServer {
        let text = format!(
            r#"{{"time": {time}, "requests": {requests}, "sites": [{{"name": "shop",
                "requests": {requests}, "pool": {{"cpu": {cpu}, "workers": [{{"pid": 7,
                "cpu": {cpu}}}]}}}}]}}"#
        );
        ShownServer::parse(&text).unwrap()
    }

    #[test]
    fn changes_are_counted_per_second() {
        let rates = Rates::of(&status(10.0, 100, 1.0), &status(12.0, 150, 2.0));
        assert_eq!((rates.requests, rates.site("shop")), (25.0, Some(25.0)));
        assert_eq!((rates.worker(7), rates.worker(8)), (Some(0.5), None));
        assert_eq!((rates.pool("shop"), rates.pool("blog")), (Some(0.5), None));
        let same = status(10.0, 100, 1.0);
        assert_eq!(Rates::of(&same, &same).site("shop"), None);
    }
}
