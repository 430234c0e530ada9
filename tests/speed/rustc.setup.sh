python3 - > big.rs <<'P'
print("use std::collections::HashMap;\nuse std::fmt::Debug;")
for i in range(250):
    print(f"""#[derive(Debug, Clone, PartialEq, PartialOrd, Hash)]
pub struct S{i} {{ pub a: u{[8, 16, 32, 64][i % 4]}, pub b: Vec<Option<String>>, pub c: (i32, char) }}
pub trait T{i} {{ fn f<K: Debug + Clone>(&self, k: K) -> String; fn g(&self) -> usize {{ 1 }} }}
impl T{i} for S{i} {{ fn f<K: Debug + Clone>(&self, k: K) -> String {{ let mut m = HashMap::new(); for x in &self.b {{ m.entry(x.clone()).or_insert_with(Vec::new).push(k.clone()); }} m.iter().map(|(a, b)| format!("{{a:?}}{{b:?}}")).collect::<Vec<_>>().join(",") }} }}
pub fn h{i}(x: &S{i}) -> Result<usize, Box<dyn std::error::Error>> {{ let n: usize = x.f(3u8).parse()?; match (n, &x.c) {{ (0, (1, 'a'..='f')) => Ok(1), (k, (j, _)) if k > 5 => Ok(k + *j as usize), _ => Ok(x.g()) }} }}""")
P
