//! The command lines (`cases.txt`), and the files that they read.

use std::path::Path;

use crate::Case;
use crate::mask::Mask;

/// Assembly, so that every count is the same with every compiler: `hot` is 4 instructions a turn, `cold` a tenth of it.
#[cfg(target_arch = "x86_64")]
pub(crate) const PROGRAM: &str = r#"
    .globl _start
    .type _start, @function
_start:
    mov $1000, %rdi
    cmpq $1, (%rsp)
    je 1f
    mov $200000000, %rdi
1:  call hot
    mov $100, %rdi
    call cold
    mov $60, %eax
    xor %edi, %edi
    syscall
    .size _start, . - _start
    .type hot, @function
hot:
    xor %eax, %eax
turn:
    add %rdi, %rax
    sub $1, %rdi
    jne turn
    ret
    .size hot, . - hot
    .type cold, @function
cold:
    xor %eax, %eax
1:  add (%rsp), %rax
    sub $1, %rdi
    jne 1b
    ret
    .size cold, . - cold
    .section .note.GNU-stack, "", @progbits
"#;

#[cfg(not(target_arch = "x86_64"))]
pub(crate) const PROGRAM: &str = r#"
    .globl _start
    .type _start, %function
_start:
    ldr x0, [sp]
    cmp x0, #1
    mov x0, #1000
    b.eq 1f
    mov x0, #0xbeb0000
1:  bl hot
    mov x0, #100
    bl cold
    mov x8, #93
    mov x0, #0
    svc #0
    .size _start, . - _start
    .type hot, %function
hot:
    add x1, x1, x0
    subs x0, x0, #1
    b.ne hot
    ret
    .size hot, . - hot
    .type cold, %function
cold:
    ldr x1, [sp]
    subs x0, x0, #1
    b.ne cold
    ret
    .size cold, . - cold
"#;

/// A text of `perf script -F ip,brstack`: a loop of two blocks, one of them mispredicted now and then.
fn branch_stacks() -> String {
    let mut text = String::new();
    for sample in 0..40 {
        text.push_str("          401100 ");
        for entry in 0..16 {
            let (cycles, flag) = if (sample + entry) % 5 == 0 {
                (31, 'M')
            } else {
                (12 + (sample * 7 + entry) % 3, 'P')
            };
            let (from, to) = if entry % 2 == 0 {
                ("0x401130", "0x401110")
            } else {
                ("0x401118", "0x401120")
            };
            text.push_str(&format!(" {from}/{to}/{flag}/-/-/{cycles}"));
        }
        text.push('\n');
    }
    text
}

pub(crate) fn write_files(directory: &Path) {
    std::fs::write(directory.join("stacks.txt"), branch_stacks()).unwrap();
    std::fs::write(directory.join("text"), "no recording\n").unwrap();
}

/// Two runs of a program with two regions, and a third that has one region more.
pub(crate) fn write_profiles(directory: &Path) {
    for (name, turns) in [("a-1", 3), ("a-2", 3), ("b-1", 4)] {
        let recorder = truecount::Recorder::new(directory.join(name)).unwrap();
        {
            let _outer = recorder.region("outer");
            for number in 0..turns {
                let _inner = recorder.region_with("inner", &[&number.to_string()]);
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        }
        recorder.finish().unwrap();
    }
}

fn mask(name: &str) -> Mask {
    match name {
        "Nothing" => Mask::Nothing,
        "Numbers" => Mask::Numbers,
        "FirstColumn" => Mask::FirstColumn,
        "Rows" => Mask::Rows,
        "SecondColumn" => Mask::SecondColumn,
        "LastColumn" => Mask::LastColumn,
        "Comments" => Mask::Comments,
        "Headings" => Mask::Headings,
        "Sorted" => Mask::Sorted,
        "FieldNames" => Mask::FieldNames,
        "Shape" => Mask::Shape,
        "Tags" => Mask::Tags,
        "Size" => Mask::Size,
        _ => panic!("cases.txt: no mask {name}"),
    }
}

/// All rows of `cases.txt`.
pub(crate) fn all() -> Vec<Case> {
    let rows = include_str!("cases.txt").lines();
    let rows = rows.filter(|row| !row.is_empty() && !row.starts_with('#'));
    rows.map(|row| {
        let (head, line) = row
            .split_once(" :")
            .unwrap_or_else(|| panic!("cases.txt: {row}"));
        let words: Vec<&str> = head.split(' ').collect();
        let [group, name, masked, status] = words[..] else {
            panic!("cases.txt: {row}");
        };
        Case {
            group: group.trim_end_matches('!'),
            privileged: group.ends_with('!'),
            name,
            line: line.strip_prefix(' ').unwrap_or(line),
            mask: mask(masked.trim_end_matches('+')),
            status: status.parse().unwrap(),
            at_least: masked.ends_with('+'),
        }
    })
    .collect()
}
