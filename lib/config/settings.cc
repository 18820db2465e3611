#include "lib/config/settings.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "lib/base/text.h"

namespace pen::config {
namespace {

template <class Enum, std::size_t N>
std::optional<Enum> pick(std::string_view word, const std::pair<std::string_view, Enum> (&words)[N]) {
  for (const auto& [name, value] : words)
    if (iequals(name, word)) return value;
  return std::nullopt;
}

// An array of constants: as code that appends them one by one it takes a minute to compile.
constexpr Row kDeclared[] = {
#define PEN_NAMING(type, names, name, def, low, high, programs, when, text) \
  {name, type, Class::acts, def, low, high, programs, Applies::when, text, "", "", Names::names},
#define PEN_PLAIN(type, ...) PEN_NAMING(type, nothing, __VA_ARGS__)
#define PEN_TEXT_OF(names, f, def, p, w, t) PEN_NAMING(Type::text, names, PEN_NAME(f), def, 0, 0, p, w, PEN_SAID(f, t))
#define PEN_NAMED_TEXT(f, name, def, p, w, t) PEN_PLAIN(Type::text, name, def, 0, 0, p, w, t)
#define PEN_RAW(f, def, p, w, t) PEN_PLAIN(Type::raw, PEN_NAME(f), def, 0, 0, p, w, PEN_SAID(f, t))
#define PEN_LIST_OF(names, f, def, p, w, t) PEN_NAMING(Type::list, names, PEN_NAME(f), def, 0, 0, p, w, PEN_SAID(f, t))
#define PEN_BOOL(f, def, p, w, t) PEN_PLAIN(Type::boolean, PEN_NAME(f), def, 0, 0, p, w, PEN_SAID(f, t))
#define PEN_INT(f, def, low, high, p, w, t) PEN_PLAIN(Type::integer, PEN_NAME(f), def, low, high, p, w, PEN_SAID(f, t))
#define PEN_SIZE(f, def, low, high, p, w, t) PEN_PLAIN(Type::size, PEN_NAME(f), def, low, high, p, w, PEN_SAID(f, t))
#define PEN_TIME(f, def, low, high, p, w, t) PEN_PLAIN(Type::time, PEN_NAME(f), def, low, high, p, w, PEN_SAID(f, t))
#define PEN_CHOICE(type, f, words, def, p, w, t) \
  {PEN_NAME(f), Type::choice, Class::acts, def, 0, 0, p, Applies::w, PEN_SAID(f, t), "", words, Names::nothing},
#define PEN_ACCEPTED(name, def, text) \
  {name, Type::untyped, Class::accepted, def, 0, 0, "", Applies::reload, text, "", "", Names::nothing},
#define PEN_UNSUPPORTED(name, def, text) \
  {name, Type::untyped, Class::unsupported, def, 0, 0, "", Applies::reload, text, "", "", Names::nothing},
#define PEN_OBSOLETE(name, def, successor, text) \
  {name, Type::untyped, Class::obsolete, def, 0, 0, "", Applies::reload, text, successor, "", Names::nothing},
#define PEN_NAME(f) "smtp_" #f
#define PEN_SAID(f, text) text
#define PEN_BY(smtp, lmtp) smtp
#include "lib/config/params_client.def"
#undef PEN_NAME
#undef PEN_SAID
#define PEN_NAME(f) "lmtp_" #f
#define PEN_SAID(f, text) "smtp_" #f " for LMTP."
#define PEN_BY(smtp, lmtp) lmtp
#include "lib/config/params_client.def"
#undef PEN_NAME
#undef PEN_SAID
#define PEN_NAME(f) #f
#define PEN_SAID(f, text) text
#include "lib/config/params.def"
#undef PEN_NAME
#undef PEN_SAID
#undef PEN_PLAIN
#undef PEN_NAMING
};

std::vector<Row> make_rows() {
  std::vector<Row> rows(std::begin(kDeclared), std::end(kDeclared));
  std::ranges::sort(rows, {}, &Row::name);
  return rows;
}

}  // namespace

std::optional<BareNewline> parse_choice(std::string_view word, BareNewline) {
  return pick<BareNewline>(word, {{"normalize", BareNewline::normalize},
                                  {"yes", BareNewline::normalize},
                                  {"no", BareNewline::no},
                                  {"reject", BareNewline::reject},
                                  {"note", BareNewline::note}});
}
std::optional<AddressPreference> parse_choice(std::string_view word, AddressPreference) {
  return pick<AddressPreference>(
      word, {{"any", AddressPreference::any}, {"ipv4", AddressPreference::ipv4}, {"ipv6", AddressPreference::ipv6}});
}
std::optional<DnsSupport> parse_choice(std::string_view word, DnsSupport) {
  return pick<DnsSupport>(word, {{"", DnsSupport::unset},
                                 {"disabled", DnsSupport::disabled},
                                 {"enabled", DnsSupport::enabled},
                                 {"dnssec", DnsSupport::dnssec}});
}
std::optional<NetworksStyle> parse_choice(std::string_view word, NetworksStyle) {
  return pick<NetworksStyle>(
      word,
      {{"host", NetworksStyle::host}, {"subnet", NetworksStyle::subnet}, {"class", NetworksStyle::address_class}});
}
std::optional<AddressFormat> parse_choice(std::string_view word, AddressFormat) {
  return pick<AddressFormat>(word, {{"external", AddressFormat::external}, {"internal", AddressFormat::internal}});
}
std::optional<FixLineEndings> parse_choice(std::string_view word, FixLineEndings) {
  return pick<FixLineEndings>(
      word, {{"always", FixLineEndings::always}, {"strict", FixLineEndings::strict}, {"never", FixLineEndings::never}});
}
std::optional<FromFormat> parse_choice(std::string_view word, FromFormat) {
  return pick<FromFormat>(word, {{"standard", FromFormat::standard}, {"obsolete", FromFormat::obsolete}});
}
std::optional<TempfailAction> parse_choice(std::string_view word, TempfailAction) {
  return pick<TempfailAction>(word,
                              {{"defer_if_permit", TempfailAction::defer_if_permit}, {"defer", TempfailAction::defer}});
}
std::optional<VerifyTarget> parse_choice(std::string_view word, VerifyTarget) {
  return pick<VerifyTarget>(word, {{"rcpt", VerifyTarget::rcpt}, {"data", VerifyTarget::data}});
}
std::optional<DestdbBackend> parse_choice(std::string_view word, DestdbBackend) {
  return pick<DestdbBackend>(word, {{"lmdb", DestdbBackend::lmdb}, {"redis", DestdbBackend::redis}});
}
std::optional<UpstreamProxy> parse_choice(std::string_view word, UpstreamProxy) {
  return pick<UpstreamProxy>(word, {{"", UpstreamProxy::none}, {"haproxy", UpstreamProxy::haproxy}});
}
std::optional<Shaping> parse_choice(std::string_view word, Shaping) {
  return pick<Shaping>(word, {{"no", Shaping::no}, {"observe", Shaping::observe}, {"yes", Shaping::yes}});
}
std::optional<ReturnedMail> parse_choice(std::string_view word, ReturnedMail) {
  return pick<ReturnedMail>(word, {{"deliver", ReturnedMail::deliver}, {"discard", ReturnedMail::discard}});
}
std::optional<StandbyLease> parse_choice(std::string_view word, StandbyLease) {
  return pick<StandbyLease>(
      word, {{"none", StandbyLease::none}, {"file", StandbyLease::file}, {"redis", StandbyLease::redis}});
}

std::optional<ScreenAction> parse_choice(std::string_view word, ScreenAction) {
  return pick<ScreenAction>(
      word, {{"ignore", ScreenAction::ignore}, {"enforce", ScreenAction::enforce}, {"drop", ScreenAction::drop}});
}
std::optional<SrsForward> parse_choice(std::string_view word, SrsForward) {
  return pick<SrsForward>(word, {{"forwarded", SrsForward::forwarded}, {"always", SrsForward::always}});
}

std::span<const Row> rows() {
  static const std::vector<Row> all = make_rows();
  return all;
}

const Row* find_row(std::string_view name) {
  const auto all = rows();
  const auto found = std::ranges::lower_bound(all, name, {}, &Row::name);
  return found != all.end() && found->name == name ? &*found : nullptr;
}

Names names_of(const Row& row) {
  const Row* successor = row.kind == Class::obsolete ? find_row(row.successor) : nullptr;
  return successor != nullptr ? successor->names : row.names;
}

bool is_match_list(Names names) {
  return names == Names::strings || names == Names::domains || names == Names::hosts || names == Names::networks;
}

}  // namespace pen::config
