//! One request's evaluation, as its directives see it.

use std::sync::Arc;

use howdah_htaccess::evaluation_context::{EvaluationContext, SubRequestFacts};
use howdah_htaccess::host::{DirectiveHost, Probe, ProbeKind};
use howdah_htaccess::work::PROBE;
use howdah_htaccess::{DirectiveSettings, Exhausted, Transaction};

use super::RequestEvaluation;
use crate::documents::{PathKind, SiteHost};
use crate::path::DocumentPath;

/// One request's evaluation, as its directives see it.
pub(super) struct PhaseContext<'w, 'a, 'r, H> {
    evaluation: &'w mut RequestEvaluation<'a, 'r, H>,
    path: &'w DocumentPath,
    kind: PathKind,
    /// The settings in force for the request, and whether its URL ends with a slash.
    under: Option<(&'w Arc<DirectiveSettings>, bool)>,
}

impl<'w, 'a, 'r, H: SiteHost> PhaseContext<'w, 'a, 'r, H> {
    pub(super) fn new(
        evaluation: &'w mut RequestEvaluation<'a, 'r, H>,
        path: &'w DocumentPath,
        kind: PathKind,
    ) -> Self {
        PhaseContext { evaluation, path, kind, under: None }
    }

    /// For a request that has been let through under these settings. Its sub-requests under the
    /// same settings are let through as well.
    pub(super) fn under(mut self, settings: &'w Arc<DirectiveSettings>, slash: bool) -> Self {
        self.under = Some((settings, slash));
        self
    }
}

impl<H: SiteHost> EvaluationContext for PhaseContext<'_, '_, '_, H> {
    fn host(&mut self) -> &mut dyn DirectiveHost {
        self.evaluation.client.meter().note(PROBE);
        self.evaluation.host
    }

    fn probe(&mut self, path: &[u8]) -> Option<Probe> {
        self.evaluation.client.meter().note(PROBE);
        self.evaluation.probe(path)
    }

    fn kind(&mut self, path: &[u8]) -> Option<ProbeKind> {
        // Nearly every question is about the file that the URL names, which is known.
        let own = self.path.absolute_bytes();
        let is_own = match path.strip_prefix(own) {
            Some(b"") => true,
            Some(b"/") => self.kind == PathKind::Directory,
            _ => false,
        };
        match self.kind {
            PathKind::File if is_own => Some(ProbeKind::File),
            PathKind::Directory if is_own => Some(ProbeKind::Directory),
            PathKind::Missing if is_own => None,
            _ => EvaluationContext::probe(self, path).map(|probe| probe.kind),
        }
    }

    fn lookup(&mut self, from: &mut Transaction<'_>, uri: &[u8]) -> SubRequestFacts {
        let passed = self.under.map(|(settings, slash)| {
            self.evaluation.passed_as(settings, self.path, self.kind, slash)
        });
        self.evaluation.lookup(from, uri, passed.as_ref())
    }

    fn spend(&mut self, steps: u64) -> Result<(), Exhausted> {
        self.evaluation.client.meter().spend(steps)
    }

    fn await_password(&mut self, hash: &[u8], password: &[u8]) {
        self.evaluation.unverified = Some((hash.to_vec(), password.to_vec()));
    }
}

impl<H: SiteHost> RequestEvaluation<'_, '_, H> {
    /// Returns what is at an absolute path, links followed. `None`: nothing is there.
    pub(super) fn probe(&mut self, absolute: &[u8]) -> Option<Probe> {
        let Ok(mut path) = self.site.root(self.client.host(), self.scratch.take()) else {
            return self.host.probe(absolute);
        };
        let probe = self.host.probe_absolute(&mut path, absolute);
        self.scratch.reuse(path);
        probe
    }
}
