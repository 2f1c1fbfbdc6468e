//! Programs of a hundred bytes that need no loader and no library.

/// One that ends with 0.
pub(crate) fn ends() -> Vec<u8> {
    // xor edi, edi; mov eax, 60; syscall
    program(&[0x31, 0xff, 0xb8, 60, 0, 0, 0, 0x0f, 0x05])
}

/// One that opens a file to read it and ends with the error, 0 for none.
pub(crate) fn opens(path: &[u8]) -> Vec<u8> {
    let mut code = vec![
        0x48, 0x8d, 0x3d, 29, 0, 0, 0, // lea rdi, [rip + 29]: the path
        0x31, 0xf6, // xor esi, esi
        0xb8, 2, 0, 0, 0, // mov eax, 2: open
        0x0f, 0x05, // syscall
        0x31, 0xff, // xor edi, edi
        0x85, 0xc0, // test eax, eax
        0x79, 4, // jns: opened
        0x89, 0xc7, // mov edi, eax
        0xf7, 0xdf, // neg edi
        0xb8, 60, 0, 0, 0, // mov eax, 60: exit
        0x0f, 0x05, // syscall
        0xf4, // hlt
    ];
    let from = 7;
    code[3] = u8::try_from(code.len() - from).unwrap();
    code.extend_from_slice(path);
    code.push(0);
    program(&code)
}

fn program(code: &[u8]) -> Vec<u8> {
    const BASE: u64 = 0x40_0000;
    const HEADERS: u64 = 120;
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(16, 0);
    let mut put = |field: &[u8]| bytes.extend_from_slice(field);
    // An executable for this processor.
    put(&2_u16.to_le_bytes());
    put(&62_u16.to_le_bytes());
    put(&1_u32.to_le_bytes());
    put(&(BASE + HEADERS).to_le_bytes());
    put(&64_u64.to_le_bytes());
    put(&0_u64.to_le_bytes());
    put(&0_u32.to_le_bytes());
    for size in [64_u16, 56, 1, 64, 0, 0] {
        put(&size.to_le_bytes());
    }
    // One segment, to be read and executed: the whole file.
    let size = HEADERS + code.len() as u64;
    put(&1_u32.to_le_bytes());
    put(&5_u32.to_le_bytes());
    for word in [0, BASE, BASE, size, size, 4096] {
        put(&word.to_le_bytes());
    }
    put(code);
    bytes
}
