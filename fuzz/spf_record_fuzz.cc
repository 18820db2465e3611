// SPF records: any record, at any place, gives a result within the limits; macros expand to what can be asked and said.
#include <cstddef>
#include <cstdint>
#include <string>

#include "lib/base/check.h"
#include "lib/trust/spf/check.h"
#include "lib/trust/spf/macro.h"
#include "lib/trust/spf/record.h"

namespace {

using namespace pen;

/// Every name has the same records: the input.
struct World {
  std::string text;
  std::size_t asked = 0;

  async::Task<net::DnsAnswer> answer(std::string name, net::RecordType type) {
    ++asked;
    PEN_CHECK(name.size() <= 253 || type == net::RecordType::ptr, "too long a name");
    net::DnsAnswer out;
    const std::size_t kind = (name.size() + text.size()) % 4;
    if (kind == 0) co_return out;
    out.outcome = kind == 1 ? net::DnsOutcome::no_domain : net::DnsOutcome::found;
    net::DnsRecord record;
    record.type = type;
    if (type == net::RecordType::txt)
      record.data = text;
    else if (type == net::RecordType::a)
      record.data = "192.0.2.1";
    else if (type == net::RecordType::aaaa)
      record.data = "2001:db8::1";
    else
      record.data = name.substr(0, 60) + ".example";
    if (kind > 1) out.records.assign(kind == 2 ? 1 : 30, record);
    co_return out;
  }
  static async::Task<void> run(World* world, std::string client, std::string sender) {
    const spf::Records records = [world](std::string name, net::RecordType type, async::Until /*until*/) {
      return world->answer(std::move(name), type);
    };
    const auto outcome = co_await spf::check(
        records, {.client = *parse_ip(client), .sender = std::move(sender), .helo = "h.example"}, {});
    PEN_CHECK(outcome.explanation.size() <= spf::kMaxExplanation, "too long an explanation");
    for (const char c : outcome.explanation) PEN_CHECK(c >= ' ' && c <= '~', "not printable");
    // Terms, hosts of each, the names of the client, records and their explanation.
    PEN_CHECK(world->asked <= 10 * 11 + 11 + 12 + 2, "too many questions");
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  if (const auto record = spf::Record::parse(input)) {
    spf::MacroValues values;
    values.sender = input.substr(0, 300) + "@x.example";
    values.domain = "x.example";
    values.client = *parse_ip("2001:db8::1");
    for (const auto& directive : record->directives)
      PEN_CHECK(spf::expand_domain(directive.target, values).size() <= 253, "too long a name");
  }
  for (const std::string client : {"192.0.2.1", "2001:db8::1"}) {
    for (const std::string sender : {"a.b-c@x.example", "postmaster@y.x.example", "a@xx.example", "a@xxx.example"}) {
      World world{.text = input};
      async::Loop loop;
      loop.spawn("check", World::run(&world, client, sender));
      loop.run_once();
    }
  }
  return 0;
}
