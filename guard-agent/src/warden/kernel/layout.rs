//! Whether an object and this build mean the same by the bytes they exchange.

use goblin::elf::Elf;
use guard_common::{abi::GLOBAL_LAYOUT, layout::LAYOUT_HASH};

use super::error::KernelError;

/// Compares before anything is made or loaded.
pub(super) fn check(object: &[u8]) -> Result<(), KernelError> {
    let elf = Elf::parse(object).map_err(KernelError::object)?;
    match stated(&elf, object) {
        Some(LAYOUT_HASH) => Ok(()),
        object => Err(KernelError::Layout { object }),
    }
}

/// The number that the object carries.
fn stated(elf: &Elf<'_>, object: &[u8]) -> Option<u64> {
    let at = position(elf)?;
    let bytes = object.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// Where in the file it stands.
fn position(elf: &Elf<'_>) -> Option<usize> {
    let symbol = elf
        .syms
        .iter()
        .find(|symbol| elf.strtab.get_at(symbol.st_name) == Some(GLOBAL_LAYOUT))?;
    let section = elf.section_headers.get(symbol.st_shndx)?;
    let offset = section.sh_offset.checked_add(symbol.st_value)?;
    usize::try_from(offset).ok()
}

#[cfg(test)]
mod tests {
    use super::{super::object::OBJECT, *};

    #[test]
    fn the_embedded_object_is_of_this_layout() {
        check(OBJECT).unwrap();
    }

    #[test]
    fn another_layout_is_named_and_so_is_none() {
        let elf = Elf::parse(OBJECT).unwrap();
        let at = position(&elf).unwrap();
        let mut other = OBJECT.to_vec();
        other[at] ^= 1;
        let error = check(&other).unwrap_err();
        assert!(
            matches!(error, KernelError::Layout { object: Some(hash) } if hash == LAYOUT_HASH ^ 1),
            "{error:?}"
        );
        let text = error.to_string();
        assert!(text.contains(&format!("{LAYOUT_HASH:016x}")), "{text}");
        // An object from before there was such a number.
        // Names share their ends with others', so each that ends so is changed.
        let mut none = OBJECT.to_vec();
        for index in 0..OBJECT.len() - 7 {
            if &OBJECT[index..index + 7] == b"LAYOUT\0" {
                none[index] = b'X';
            }
        }
        assert!(matches!(
            check(&none).unwrap_err(),
            KernelError::Layout { object: None }
        ));
    }
}
