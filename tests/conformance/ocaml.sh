# needs: ocaml
# package: ocaml-nox
cat > a.ml <<'X'
let rec f n = if n < 2 then n else f (n - 1) + f (n - 2);;
print_int (f 22); print_newline ();;
module M = Map.Make (String);;
let m = List.fold_left (fun m i -> M.add (string_of_int i) i m) M.empty (List.init 2000 Fun.id);;
print_int (M.fold (fun _ v a -> v + a) m 0); print_newline ();;
try ignore (List.assoc 3 []) with Not_found -> print_endline "not found";;
let rec deep n = 1 + deep (n + 1);; (try ignore (deep 0) with Stack_overflow -> print_endline "overflow");;
exit 3;;
X
ocaml a.ml; echo "status $?"
if command -v ocamlfind ocamlopt >/dev/null; then ocamlopt -o a a.ml 2>/dev/null && ./a; echo "status $?"; fi
rm -f a.cm* a.o a
