//! A result's `structuredContent` against the tool's own `outputSchema`.

use super::{
    NoForm,
    flaw::{Flaw, Flaws},
    read,
    schema::Schema,
    survey::Side,
};

/// One tool's promise about its results.
#[derive(Debug)]
pub struct OutputForm {
    schema: Schema,
}

impl OutputForm {
    /// From the raw JSON of the tool's `outputSchema`.
    ///
    /// # Errors
    /// The schema cannot be used; then no result of the tool can be told to be sound.
    pub fn of(output_schema: &[u8]) -> Result<OutputForm, NoForm> {
        Ok(OutputForm {
            schema: Schema::of(output_schema)?,
        })
    }

    /// Whether a result keeps the promise. One that tells an error owes nothing. Members beyond what is declared are the
    /// schema's own affair here: they come from the server anyway.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self, structured_content: Option<&[u8]>, is_error: bool) -> Result<(), Vec<Flaw>> {
        if is_error {
            return Ok(());
        }
        let mut flaws = Flaws::default();
        let Some(bytes) = structured_content else {
            flaws.add(Flaw::new(
                "",
                "required",
                "the result has no structuredContent, which the tool's outputSchema promises",
            ));
            return flaws.verdict();
        };
        match read::value(bytes) {
            Ok(value) => {
                let side = Side {
                    call: false,
                    declared_only: false,
                    named: false,
                };
                super::against(&self.schema, &value, side, &mut flaws);
            }
            Err(flaw) => flaws.add(flaw),
        }
        flaws.verdict()
    }
}
