//! Programs and libraries that change, and runs that do something else than the ones before.

use super::{compile, directory, run};
use truecount_engine::virt::Cache;

#[test]
fn a_program_that_changes_is_another_program() {
    let source = |code: i32| format!("int main(void) {{ return {code}; }}");
    let (cache, _) = directory("changed");
    let Some(program) = compile("changed", &source(3), &[]) else {
        return;
    };
    let path = program.to_string_lossy().into_owned();
    let Some(first) = run(&[&path], Some(&cache), true) else {
        return;
    };
    let _ = compile("changed", &source(4), &[]);
    let second = run(&[&path], Some(&cache), true).expect("it worked before");
    assert_eq!((first.code, second.code), (Some(3), Some(4)));
    assert_eq!(
        second.cached, 0,
        "nothing of the first belongs to the second"
    );
}

/// To write everything anew costs as much as to translate a twentieth of it.
#[test]
fn what_is_new_is_kept_where_it_is_enough() {
    let functions = |one: &dyn Fn(u32) -> String| (0..400).map(one).collect::<String>();
    let bodies = functions(&|n| {
        format!("__attribute__((noinline)) int f{n}(int x) {{ return x ^ {n}; }}\n")
    });
    let calls = functions(&|n| format!("x = f{n}(x);"));
    let source = format!(
        "{bodies}int main(int argc, char **argv) {{ int x = argc; if (argc == 2) x = f7(x); \
         if (argc == 3) {{ {calls} }} return x < 0; }}"
    );
    let (cache, path) = directory("enough");
    let Some(program) = compile("enough", &source, &["-O0"]) else {
        return;
    };
    let program = program.to_string_lossy().into_owned();
    let Some(first) = run(&[&program], Some(&cache), true) else {
        return;
    };
    assert!(first.translated > 100, "{first:?}");
    // (What a run has saved before counts in the next ones of the same cache.)
    let again = |words: &[&str]| {
        let cache = Cache::open(&path).expect("the same directory");
        run(words, Some(&cache), true).expect("it worked before")
    };
    let few = again(&[&program, "few"]);
    assert!(few.translated > 0 && few.cached > 0, "{few:?}");
    assert_eq!(again(&[&program, "few"]), few, "nothing was written");
    let many = again(&[&program, "as", "many"]);
    assert!(many.translated > 400, "{many:?}");
    assert_eq!(again(&[&program, "as", "many"]).translated, 0);
}

#[test]
fn a_library_that_changes_is_translated_again() {
    let (cache, _) = directory("library");
    let library = |value: i32| {
        let source = format!("int value(void) {{ return {value}; }}");
        compile("libvalue.so", &source, &["-shared", "-fPIC"])
    };
    let Some(built) = library(5) else { return };
    let Some(program) = compile(
        "user-of-library",
        "int value(void); int main(void) { return value(); }",
        &[&built.to_string_lossy(), "-Wl,-rpath,$ORIGIN"],
    ) else {
        return;
    };
    let path = program.to_string_lossy().into_owned();
    let Some(first) = run(&[&path], Some(&cache), true) else {
        return;
    };
    let second = run(&[&path], Some(&cache), true).expect("it worked before");
    assert_eq!(
        (first.code, second.code, second.translated),
        (Some(5), Some(5), 0)
    );
    let _ = library(6);
    let third = run(&[&path], Some(&cache), true).expect("it worked before");
    assert_eq!(third.code, Some(6));
    assert!(
        third.translated > 0 && third.translated < 200 && third.cached > 0,
        "{third:?}"
    );
    assert_eq!(third.instructions, first.instructions);
}
