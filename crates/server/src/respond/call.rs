//! Encoding a request for its worker.

use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;

use howdah_http::{Fields, Status};
use howdah_php::{EntryBlock, RequestEncoder};
use howdah_site::{
    ClientRequest, EnvironmentNames, RuledRequest, Script, ScriptEnvironment, common_variables,
    own_variables, server_variables,
};

use super::prepared::PreparedResponse;

/// A script, and the client whose request runs it.
#[derive(Clone, Copy)]
pub(crate) struct ScriptCall<'c> {
    pub(crate) client: ClientRequest<'c>,
    pub(crate) script: &'c Script,
}

/// The parts of a call that are the same for all requests of a cached resolution, encoded once.
#[derive(Debug)]
pub(crate) struct CommonCall {
    /// The server's variables that do not depend on the single request.
    first: EntryBlock,
    /// The variables and ini values that directives set. A variable with the name of one of the
    /// server's is left out.
    last: EntryBlock,
    /// The names of the variables that directives set.
    names: EnvironmentNames,
}

impl CommonCall {
    fn of(call: &ScriptCall<'_>, ruled: &RuledRequest) -> CommonCall {
        let mut environment = ScriptEnvironment::of(ruled);
        let (mut first, mut last) = (EntryBlock::default(), EntryBlock::default());
        common_variables(&call.client, call.script, Some(ruled), &mut |name, value| {
            environment.leave_out(name);
            first.variable(name, value);
        });
        environment.give(|name, value| last.variable(name, value));
        add_ini(&mut last, ruled);
        CommonCall {
            first,
            last,
            names: EnvironmentNames::of(ruled),
        }
    }
}

impl ScriptCall<'_> {
    /// Encodes the call up to its content. The part that all requests of a cached resolution share
    /// is taken from `prepared`.
    pub(crate) fn encode(
        &self,
        encoder: &mut RequestEncoder,
        ruled: Option<&Rc<RuledRequest>>,
        prepared: Option<&PreparedResponse>,
    ) {
        let ruled = ruled.map(Rc::as_ref);
        if let (Some(ruled), Some(prepared)) = (ruled, prepared) {
            let common = prepared.call.get_or_init(|| Box::new(CommonCall::of(self, ruled)));
            if self.encode_own(encoder, ruled, common) {
                return;
            }
        }
        self.encode_all(encoder, ruled);
    }

    /// Encodes `common` and the request's own variables. `false`: one of them has a name that a
    /// directive has set, and the call must be encoded again without `common`.
    fn encode_own(
        &self,
        encoder: &mut RequestEncoder,
        ruled: &RuledRequest,
        common: &CommonCall,
    ) -> bool {
        let mut is_apart = true;
        self.begin(encoder, Some(ruled));
        let entries = encoder.entries();
        entries.add(&common.first);
        own_variables(&self.client, Some(ruled), &mut |name, value| {
            is_apart &= !common.names.has(name);
            entries.variable(name, value);
        });
        entries.add(&common.last);
        is_apart
    }

    fn encode_all(&self, encoder: &mut RequestEncoder, ruled: Option<&RuledRequest>) {
        self.begin(encoder, ruled);
        let entries = encoder.entries();
        server_variables(&self.client, self.script, ruled, &mut |name, value| {
            entries.variable(name, value)
        });
        if let Some(ruled) = ruled {
            add_ini(entries, ruled);
        }
    }

    fn begin(&self, encoder: &mut RequestEncoder, ruled: Option<&RuledRequest>) {
        let request = self.client.request();
        let state = ruled.map(|ruled| &ruled.state);
        let fields =
            state.and_then(|state| state.request_fields.as_ref()).unwrap_or(&request.fields);
        let method = state.map_or(&request.method, |state| &state.method);
        let path = self.script.path();
        encoder.begin(
            self.client.time(),
            [
                Some(method.as_str().as_bytes()),
                Some(path.absolute().as_os_str().as_bytes()),
                Some(&request.target),
                state.map_or(request.query(), |state| state.args.as_deref()),
                fields.value(b"content-type"),
                cookie(fields).as_deref(),
                fields.value(b"authorization"),
                Some(path.root().as_os_str().as_bytes()),
                Some(&fields.section()),
            ],
        );
        if let Some(state) = state
            && state.status != Status::OK
        {
            encoder.status(state.status.code());
        }
    }
}

/// The ini values that directives set.
fn add_ini(block: &mut EntryBlock, ruled: &RuledRequest) {
    for (name, value) in ruled.settings.php.iter().flat_map(|php| &php.values) {
        block.ini(name, value);
    }
}

/// All lines of Cookie in one.
fn cookie(fields: &Fields) -> Option<Cow<'_, [u8]>> {
    let mut cookies = fields.values(b"cookie");
    match (cookies.next(), cookies.next()) {
        (Some(first), Some(second)) => {
            let all: Vec<&[u8]> = [first, second].into_iter().chain(cookies).collect();
            Some(all.join(&b"; "[..]).into())
        }
        (only, _) => only.map(Cow::Borrowed),
    }
}
