# needs: php
# package: php-cli
# count: repeats
php -n -r 'for ($i = 0, $s = 0; $i < 300000; $i++) $s += $i % 7; echo $s, "\n";
$a = range(1, 2000); sort($a); echo array_sum($a), " ", md5(serialize($a)), "\n";
function f($n) { return $n < 2 ? $n : f($n - 1) + f($n - 2); } echo f(20), "\n";
function g() { for ($i = 0; $i < 3; $i++) yield $i => $i * $i; } foreach (g() as $k => $v) echo "$k:$v ";
try { intdiv(1, 0); } catch (DivisionByZeroError $e) { echo $e->getMessage(), "\n"; }
echo preg_replace("/(\d+)/", "<$1>", "a1b22c"), "\n"; exit(4);'; echo "status $?"
