# needs: luajit
# package: luajit
luajit -e 'local t={} for i=1,3e6 do t[i%100]=i end print(t[5], #t)
print(pcall(function() error("x") end))
local co=coroutine.wrap(function() for i=1,5 do coroutine.yield(i*i) end end) print(co(),co(),co())
local s=0 for i=1,1e6 do s=s+i%7*(i%3) end print(s)
local ffi=require"ffi" ffi.cdef"int abs(int); double sqrt(double);" print(ffi.C.abs(-7)) print(string.rep("ab",3):gsub("a","c"))'
luajit -joff -e 'local s=0 for i=1,1e6 do s=s+i%7 end print(s) error("end")' 2>/dev/null; echo "status $?"
