// Measures the processor time of SPF and DMARC for one message; DNS is a table. DKIM is measured by dkim_bench.
//   authentication_bench     one line of JSON for each figure
#include <fmt/format.h>

#include <cstdio>

#include "bench/least_time.h"
#include "lib/net/testing/zone.h"
#include "lib/trust/dmarc/check.h"
#include "lib/trust/spf/check.h"

using namespace pen;

namespace {

constexpr int kRounds = 7, kCount = 2000;

template <class T>
async::Task<void> keep(async::Task<T> task, T* out, bool* done) {
  *out = co_await task;
  *done = true;
}

/// Runs the task to its end: nothing in it waits.
template <class T>
T run(async::Loop& loop, async::Task<T> task) {
  T out;
  bool done = false;
  loop.spawn("bench", keep(std::move(task), &out, &done));
  while (!done) loop.run_once();
  return out;
}

template <class Work>
void measure(const char* name, Work work) {
  const auto time = bench::least_time(kRounds, kCount, work);
  fmt::print("{{\"what\": \"{}\", \"microseconds\": {:.1f}}}\n", name, time.count());
}

}  // namespace

int main() {
  async::Loop loop;
  net::testing::Zone zone;
  zone.add("x.example", "TXT", "v=spf1 mx include:provider.example include:other.example ~all");
  zone.add("x.example", "MX", "10 mx.x.example");
  zone.add("mx.x.example", "A", "203.0.113.1");
  zone.add("provider.example", "TXT", "v=spf1 include:a.provider.example include:b.provider.example -all");
  std::string networks = "v=spf1";
  for (int i = 0; i < 12; ++i) networks += fmt::format(" ip4:198.51.{}.0/24", i);
  zone.add("a.provider.example", "TXT", networks + " ~all");
  zone.add("b.provider.example", "TXT", networks + " ip6:2001:db8::/32 ~all");
  zone.add("other.example", "TXT", "v=spf1 a:out.other.example ip4:192.0.2.0/24 -all");
  zone.add("out.other.example", "A", "203.0.113.2");
  zone.add("_dmarc.x.example", "TXT", "v=DMARC1; p=reject; rua=mailto:a@x.example; adkim=r; aspf=r; pct=100");
  const auto records = zone.records();
  measure("SPF, six terms that ask DNS, pass", [&] {
    zone.asked.clear();
    (void)run(loop, spf::check(records, {.client = *parse_ip("192.0.2.7"), .sender = "a@x.example", .helo = "h"}, {}));
  });
  const auto suffixes = *dmarc::Suffixes::parse("example\n");
  for (const auto* list : {suffixes.get(), static_cast<const dmarc::Suffixes*>(nullptr)})
    measure(list ? "DMARC by the list, pass" : "DMARC by the tree walk, pass", [&] {
      zone.asked.clear();
      dmarc::Facts facts;
      facts.authors = dmarc::authors_of({" Anna <a@mail.x.example>"});
      facts.spf = dmarc::Identity{.domain = "bounces.x.example", .passed = true};
      (void)run(loop, dmarc::check(records, list, std::move(facts), 0, {}));
    });
  return 0;
}
