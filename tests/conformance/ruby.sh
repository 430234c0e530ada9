# needs: ruby
# package: ruby
ruby -e 'puts (1..200_000).map { |x| x * x }.sum, %w[a b].inspect
h = Hash.new { |t, k| t[k] = k < 2 ? k : t[k - 1] + t[k - 2] }; puts h[90]
puts 8.times.map { |n| Thread.new { (1..2000).sum * n } }.map(&:value).inspect
f = Fiber.new { 3.times { |i| Fiber.yield i }; :end }; 4.times { print f.resume, " " }; puts
begin; raise ArgumentError, "x"; rescue => e; puts e.message; ensure puts "done"; end
pid = fork { exit 7 }; Process.wait pid; puts $?.exitstatus
puts `echo from the shell`, "a1b22".scan(/\d+/).inspect, 2**200, GC.start.inspect
trap("USR1") { puts "signal" }; Process.kill("USR1", Process.pid); sleep 0.01
r, w = IO.pipe; w.puts "pipe"; w.close; puts r.read; exit 3'; echo "status $?"
