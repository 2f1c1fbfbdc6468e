//! The observing programs: on tracepoints that every task of the host passes, for
//! the tasks of observed sandboxes. They change nothing but their own maps.

mod exec;
mod registers;
mod sys_exit;
mod text;
