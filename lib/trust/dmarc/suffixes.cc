#include "lib/trust/dmarc/suffixes.h"

#include <cerrno>
#include <fstream>
#include <vector>

#include "lib/base/text.h"
#include "lib/net/dns_packet.h"

namespace pen::dmarc {

Result<std::shared_ptr<const Suffixes>> Suffixes::read(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return std::unexpected(Error::from_errno(errno == 0 ? EIO : errno, file));
  std::string text(kMaxSize + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad()) return std::unexpected(Error::from_errno(EIO, file));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > kMaxSize) return fail(DmarcError::no_list, file + ": too large");
  auto list = parse(text);
  if (!list) return fail(DmarcError::no_list, file + ": " + list.error().context());
  return list;
}

Result<std::shared_ptr<const Suffixes>> Suffixes::parse(std::string_view text) {
  auto out = std::make_shared<Suffixes>();
  for (std::string_view line : split(text, "\n")) {
    line = line.substr(0, line.find_first_of(" \t\r"));
    if (line.empty() || line.starts_with("//")) continue;
    Rule rule = Rule::suffix;
    if (line.starts_with('!')) {
      rule = Rule::exception;
      line.remove_prefix(1);
    } else if (line.starts_with("*.")) {
      rule = Rule::all_below;
      line.remove_prefix(2);
    }
    // What DNS cannot hold is no suffix of any name that comes.
    if (const auto name = net::normal_name(line))
      out->rules_[*name] = static_cast<std::uint8_t>(out->rules_[*name] | (1U << static_cast<unsigned>(rule)));
  }
  if (out->rules_.empty()) return fail(DmarcError::no_list, "no rule in it");
  return out;
}

bool Suffixes::has(const std::string& name, Rule rule) const {
  const auto found = rules_.find(name);
  return found != rules_.end() && (found->second & (1U << static_cast<unsigned>(rule))) != 0;
}

std::string Suffixes::organisation(std::string_view domain) const {
  // From the longest name to the shortest; `below` has one label more than `name`.
  std::string_view below = domain;
  for (std::string_view name = domain;;) {
    const std::string here(name);
    const auto dot = name.find('.');
    // The rule that makes an exception is longer than what it is an exception to.
    if (has(here, Rule::exception)) return here;
    const bool wild = dot != name.npos && has(std::string(name.substr(dot + 1)), Rule::all_below);
    if (wild || has(here, Rule::suffix) || dot == name.npos) return std::string(below);
    below = name;
    name.remove_prefix(dot + 1);
  }
}

}  // namespace pen::dmarc
