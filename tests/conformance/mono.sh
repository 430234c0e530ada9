# needs: mono mcs
# package: mono-runtime mono-mcs
# time: 120
cat > a.cs <<'X'
using System; using System.Linq; using System.Threading; using System.Collections.Generic;
class P { static int F(int n) { return n < 2 ? n : F(n - 1) + F(n - 2); }
  static void Main() { long s = 0; for (int i = 0; i < 3000000; i++) s += i % 7; Console.WriteLine(s + " " + F(24));
    try { throw new Exception("x"); } catch (Exception e) { Console.WriteLine(e.Message); }
    object o = null; try { o.ToString(); } catch (NullReferenceException) { Console.WriteLine("null"); }
    int z = 0; try { Console.WriteLine(1 / z); } catch (DivideByZeroException) { Console.WriteLine("zero"); }
    Console.WriteLine(Enumerable.Range(0, 1000).Select(x => x * x).Where(x => x % 3 == 0).Sum());
    var t = Enumerable.Range(0, 4).Select(i => { var th = new Thread(() => { var l = new List<string>(); for (int j = 0; j < 20000; j++) l.Add("" + j); }); th.Start(); return th; }).ToList();
    t.ForEach(x => x.Join()); GC.Collect(); Console.WriteLine("done"); Environment.Exit(3); } }
X
mcs a.cs; echo "compiled $?"; mono a.exe; echo "status $?"
rm -f a.exe
