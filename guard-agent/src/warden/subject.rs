//! Which sandbox something is about: that of a session, or of one of its calls.

use crate::audit::call_name;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Subject {
    pub(super) session: String,
    pub(super) server: String,
    /// Of a session that has a sandbox a call.
    pub(super) call: Option<u64>,
}

impl Subject {
    /// As its cgroup, its session file and its directories are called.
    pub(super) fn name(&self) -> String {
        name(&self.session, self.call)
    }

    /// As records name the call.
    pub(super) fn call(&self) -> Option<String> {
        self.call.map(call_name)
    }
}

pub(super) fn name(session: &str, call: Option<u64>) -> String {
    call.map_or_else(|| session.to_owned(), |call| format!("{session}.{call}"))
}

#[cfg(test)]
impl Subject {
    pub(super) fn test(server: &str, call: Option<u64>) -> Self {
        Self {
            session: "s".into(),
            server: server.into(),
            call,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sandboxes_of_a_session_have_names_of_their_own() {
        let name = |call| Subject::test("files", call).name();
        assert_eq!([None, Some(1), Some(12)].map(name), ["s", "s.1", "s.12"]);
    }
}
