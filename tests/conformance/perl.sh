# needs: perl
perl -e 'my %h; $h{$_ % 997} .= chr(65 + $_ % 26) for 1..200000; my $s = join "", map {$h{$_}} sort {$a <=> $b} keys %h; print length($s), " ", unpack("%32C*", $s), "\n"; $s =~ s/([A-M]+)/lc $1/ge; print substr($s, 0, 60), "\n"; local $SIG{ALRM} = sub { print "alarm\n"; exit 5 }; alarm 1; 1 while 1'
