#include "lib/send/egress/setup.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <fstream>
#include <set>
#include <sstream>

#include "lib/base/text.h"
#include "lib/send/egress/ledger.h"

namespace pen::egress {
namespace {

std::set<std::string> own_addresses() {
  std::set<std::string> out;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return out;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr) continue;
    const int family = i->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const void* bytes = family == AF_INET
                            ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr)
                            : &reinterpret_cast<const sockaddr_in6*>(i->ifa_addr)->sin6_addr;
    char text[INET6_ADDRSTRLEN];
    if (::inet_ntop(family, bytes, text, sizeof text) != nullptr) out.insert(text);
  }
  ::freeifaddrs(list);
  return out;
}

}  // namespace

Result<std::string> read_sources_file(const config::Settings& s) {
  const std::string& path = s.egress_sources_file;
  if (path.empty()) return std::string();
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail_errno("egress_sources_file " + path, errno);
  std::string text(kMaxFile + 1, '\0');  // a byte more than may be: then parse() says what is wrong
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad()) return fail_errno("egress_sources_file " + path, EIO);
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

SetupRead read_setup(const config::Settings& s, const Result<std::string>& sources_file,
                     const map::OpenOptions& options) {
  SetupRead out{std::make_shared<Setup>(), {}};
  Setup& setup = *out.setup;
  setup.delimiters = s.recipient_delimiter;
  if (sources_file) {
    Parsed parsed = parse(*sources_file);
    for (const Fault& f : parsed.faults)
      out.faults.push_back(s.egress_sources_file + ", line " + std::to_string(f.line) + ": " + f.text);
    setup.file = std::move(parsed.file);
  } else {
    out.faults.push_back(sources_file.error().message());
  }
  if (auto maps = map::MapList::open(join(s.egress_pool_maps, ", "), options.of("egress_pool_maps")); !maps)
    out.faults.push_back("egress_pool_maps: " + maps.error().message());
  else if (maps->blocking())
    out.faults.emplace_back(
        "egress_pool_maps: this type of table may wait for others, which the queue manager cannot; use lmdb, texthash, "
        "cdb, pcre, regexp, static or inline");
  else
    setup.pool_maps = *std::move(maps);
  if (!s.default_egress_pool.empty() && s.default_egress_pool != kNoPool) {
    setup.default_pool = setup.file.pool(s.default_egress_pool);
    if (setup.default_pool == nullptr)
      out.faults.push_back("default_egress_pool: there is no pool " + printable(s.default_egress_pool, 100));
  }
  if (auto schedule = parse_schedule(s.egress_warmup_schedule))
    setup.schedule = *std::move(schedule);
  else
    out.faults.emplace_back("egress_warmup_schedule: at most 100 rising numbers are wanted");
  return out;
}

Result<const Pool*> Setup::pool_for(const Mail& mail) const {
  if (pool_maps.empty()) return default_pool;
  const auto found = [this](const std::string& name) -> Result<const Pool*> {
    if (name == kNoPool) return nullptr;
    const Pool* pool = file.pool(name);
    if (pool == nullptr)
      return fail(map::MapError::syntax, "egress_pool_maps: there is no pool " + printable(name, 100));
    return pool;
  };
  for (const auto& [prefix, name] : {std::pair{"transport:", mail.transport}, {"tenant:", mail.tenant}}) {
    if (name.empty()) continue;
    PEN_TRY_ASSIGN(const auto value, pool_maps.lookup(prefix + std::string(name)));
    if (value) return found(*value);
  }
  if (mail.sender.empty()) {
    PEN_TRY_ASSIGN(const auto value, pool_maps.lookup("<>"));
    return value ? found(*value) : Result<const Pool*>(default_pool);
  }
  PEN_TRY_ASSIGN(const auto hit, map::find_address(pool_maps, mail.sender,
                                                   {.bare_user = false, .at_domain = true, .delimiters = delimiters}));
  return hit ? found(hit->value) : Result<const Pool*>(default_pool);
}

std::vector<std::string> strange_addresses(const config::Settings& settings, const File& file) {
  std::vector<std::string> out;
  const auto own = own_addresses();
  for (const Source& s : file.sources) {
    if (s.proxy.kind != Proxy::Kind::none) continue;  // the proxy's address, not ours
    for (const std::string& address : {s.address, s.address6}) {
      // All of 127.0.0.0/8 is this host.
      if (address.empty() || address.starts_with("127.") || own.contains(address)) continue;
      out.push_back(settings.egress_sources_file + ", line " + std::to_string(s.line) + ": source " + s.name +
                    " cannot send: this host does not have the address " + address);
    }
  }
  return out;
}

}  // namespace pen::egress
