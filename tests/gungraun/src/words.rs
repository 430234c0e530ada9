//! Counts words of its first argument that many times.

fn main() {
    let mut arguments = std::env::args().skip(1);
    let text = arguments.next().unwrap_or_default();
    let times = arguments.next().and_then(|times| times.parse().ok()).unwrap_or(1);
    let count: usize = (0..times).map(|_| text.split(' ').count()).sum();
    println!("{count}");
}
