//! What a kernel function takes. Hooks gain and lose arguments between versions, so that a position is never known
//! from a version.

use super::{
    KernelTypes,
    records::{Kind, Records},
};

/// An argument of a kernel function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    /// As the kernel's source has it.
    pub name: String,
    /// The structure, union or scalar it is or points to, without qualifiers. A structure has its own name even where a
    /// typedef was used; for others the typedef's is taken. Empty where C has no name, as for an array or a function.
    pub kind: String,
    /// How often it has to be followed to get there.
    pub pointers: usize,
}

/// Qualifiers, pointers and typedefs on the way to a type: more are not followed, they may lead in a circle.
const STEPS: usize = 32;
/// What a program is given an argument in.
const SLOT_BYTES: u32 = 8;

impl KernelTypes {
    /// The arguments of the function called `function`, in order: the position of each is its slot in what a program
    /// on it is given. `None` also where that would not hold: a list without an end, an argument wider than a slot.
    pub fn arguments(&self, function: &str) -> Option<Vec<Argument>> {
        let (_, function) = self.named(Kind::Function, function).next()?;
        let prototype = self.records.get(function.value)?;
        if prototype.kind != Kind::Prototype {
            return None;
        }
        (0..prototype.count)
            .map(|index| {
                let (name, number) = prototype.parameter(index)?;
                // What ends a list without an end.
                if (name, number) == (0, 0) {
                    return None;
                }
                let (kind, pointers) = resolve(&self.records, number)?;
                let name = text(&self.records, name)?;
                Some(Argument { name, kind, pointers })
            })
            .collect()
    }

    /// The slot of the argument of `function` that is the `nth`, from 0, of those that point to `structure`.
    pub fn slot(&self, function: &str, structure: &str, nth: usize) -> Option<usize> {
        self.arguments(function)?
            .iter()
            .enumerate()
            .filter(|(_, argument)| argument.pointers == 1 && argument.kind == structure)
            .nth(nth)
            .map(|(slot, _)| slot)
    }
}

/// Name of the type that `number` leads to, and how many pointers are on the way.
fn resolve(records: &Records, mut number: u32) -> Option<(String, usize)> {
    let mut pointers = 0;
    let mut typedef = None;
    for _ in 0..STEPS {
        if number == 0 {
            return typedef.or_else(|| Some(("void".to_owned(), pointers)));
        }
        let record = records.get(number)?;
        let name = text(records, record.name)?;
        match record.kind {
            Kind::Pointer => pointers += 1,
            Kind::Typedef => typedef = typedef.or(Some((name, pointers))),
            Kind::Qualifier => {}
            Kind::Structure | Kind::Union | Kind::Forward | Kind::Enumeration | Kind::Integer => {
                if pointers == 0 && (record.kind == Kind::Forward || record.value > SLOT_BYTES) {
                    return None;
                }
                let own = matches!(record.kind, Kind::Structure | Kind::Union | Kind::Forward);
                return if own && !name.is_empty() {
                    Some((name, pointers))
                } else {
                    typedef.or(Some((name, pointers)))
                };
            }
            Kind::Function | Kind::Prototype | Kind::Other => {
                return (pointers > 0).then(|| typedef.unwrap_or((String::new(), pointers)));
            }
        }
        number = record.value;
    }
    None
}

fn text(records: &Records, name: u32) -> Option<String> {
    String::from_utf8(records.name(name)?.to_vec()).ok()
}
