#include "lib/receive/milter/protocol.h"

#include <algorithm>

#include "lib/base/text.h"

namespace pen::milter {
namespace {

constexpr std::size_t kMaxReplyLines = 32, kMaxMacros = 200;

void append_u32(std::string& out, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>((value >> shift) & 0xff);
}

std::uint32_t read_u32(std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

/// Cuts off a string that ends in NUL; nullopt: there is none.
std::optional<std::string_view> take_string(std::string_view& rest) {
  const auto end = rest.find('\0');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view text = rest.substr(0, end);
  rest.remove_prefix(end + 1);
  return text;
}

/// The protocol bits that are offered with a version.
std::uint32_t protocol_of(const Offer& offer) {
  constexpr std::uint32_t kFirst = 0x7f, kUnknown = 0x100, kData = 0x200, kNoHeaderReply = 0x80;
  if (offer.version >= 6) return protocol::kAll;
  return kFirst | (offer.version > 2 ? kUnknown : 0) | (offer.version > 3 ? kData : 0) |
         (offer.no_header_reply ? kNoHeaderReply : 0);
}

std::uint32_t actions_of(std::uint32_t version) { return version < 6 ? 0x3fU : action::kAll; }

std::unexpected<Error> malformed(std::string what) { return fail(MilterError::malformed, std::move(what)); }

}  // namespace

std::string_view describe(MilterError e) {
  switch (e) {
    case MilterError::malformed:
      return "unexpected reply";
    case MilterError::incompatible:
      return "speaks a protocol that does not fit";
    case MilterError::bad_reply:
      return "malformed reply";
    case MilterError::lost:
      return "lost connection";
    case MilterError::timed_out:
      return "no reply in time";
    case MilterError::too_much:
      return "asks for too many changes";
    case MilterError::bad_setting:
      return "bad setting";
  }
  return "unknown";
}

const StageFacts& facts_of(Stage stage) {
  static constexpr StageFacts kFacts[] = {
      {Command::connect, 0x01, 0x1000, 2, 0, "CONNECT"},
      {Command::helo, 0x02, 0x2000, 2, 1, "HELO"},
      {Command::mail, 0x04, 0x4000, 2, 2, "MAIL"},
      {Command::rcpt, 0x08, 0x8000, 2, 3, "RCPT"},
      {Command::data, 0x200, 0x10000, 4, 4, "DATA"},
      {Command::header, 0x20, 0x80, 2, -1, "HEADER"},
      {Command::end_of_header, 0x40, 0x40000, 2, 6, "EOH"},
      {Command::body, 0x10, 0x80000, 2, -1, "BODY"},
      {Command::end_of_message, 0, 0, 2, 5, "END-OF-MESSAGE"},
      {Command::unknown, 0x100, 0x20000, 3, -1, "UNKNOWN"},
  };
  static_assert(std::size(kFacts) == kStages);
  return kFacts[static_cast<std::size_t>(stage)];
}

void append_packet(std::string& out, Command command, std::string_view data) {
  append_u32(out, static_cast<std::uint32_t>(data.size() + 1));
  out += static_cast<char>(command);
  out += data;
}

Result<std::uint32_t> packet_size(std::string_view bytes) {
  const std::uint32_t size = read_u32(bytes);
  if (size == 0) return malformed("an empty packet");
  return size;
}

std::string c_string(std::string_view text) {
  std::string out(text.substr(0, text.find('\0')));
  out += '\0';
  return out;
}

std::string Offer::data() const {
  std::string out;
  append_u32(out, version);
  append_u32(out, actions_of(version));
  append_u32(out, protocol_of(*this));
  return out;
}

Result<Negotiation> Negotiation::parse(std::string_view data, const Offer& offer) {
  if (data.size() < 12) return malformed("a short answer to the negotiation");
  Negotiation out;
  out.version = read_u32(data);
  out.actions = read_u32(data.substr(4));
  out.protocol = read_u32(data.substr(8));
  if (out.version > offer.version || out.version < 2)
    return fail(MilterError::incompatible, "protocol version " + std::to_string(out.version));
  if ((out.actions & ~actions_of(offer.version)) != 0)
    return fail(MilterError::incompatible, "actions that were not offered");
  if ((out.protocol & ~protocol_of(offer)) != 0)
    return fail(MilterError::incompatible, "protocol steps that were not offered");
  std::size_t names = 0;
  for (std::string_view rest = data.substr(12); !rest.empty();) {
    if (rest.size() < 5) return malformed("a list of macros that is cut short");
    const std::uint32_t stage = read_u32(rest);
    rest.remove_prefix(4);
    const auto list = take_string(rest);
    if (!list || stage >= out.macros.size()) return malformed("a list of macros that makes no sense");
    std::vector<std::string> words;
    for (const auto word : split(*list)) words.emplace_back(word);
    if ((names += words.size()) > kMaxMacros) return malformed("too many macros");
    if (!words.empty()) out.macros[stage] = std::move(words);
  }
  return out;
}

bool Negotiation::wants(Stage stage) const {
  const StageFacts& facts = facts_of(stage);
  return version >= facts.since && (facts.omit == 0 || (protocol & facts.omit) == 0);
}

bool Negotiation::replies(Stage stage) const { return (protocol & facts_of(stage).no_reply) == 0; }

Result<std::optional<Edit>> parse_edit(const Packet& packet, std::uint32_t actions) {
  std::string_view rest = packet.data;
  Edit edit;
  const auto allowed = [&](std::uint32_t bits) { return (actions & bits) != 0; };
  const auto indexed = [&]() -> bool {
    if (rest.size() < 4) return false;
    edit.index = read_u32(rest);
    rest.remove_prefix(4);
    return true;
  };
  const auto text = [&](std::string& into) {
    const auto found = take_string(rest);
    if (found) into = *found;
    return found.has_value();
  };
  bool whole = false, may = false;
  using Kind = Edit::Kind;
  switch (packet.code) {
    case 'h':
      edit.kind = Kind::add_header;
      may = allowed(action::kAddHeaders);
      whole = text(edit.name) && text(edit.value);
      break;
    case 'i':
      edit.kind = Kind::insert_header;
      may = allowed(action::kAddHeaders);
      whole = indexed() && text(edit.name) && text(edit.value);
      break;
    case 'm':
      edit.kind = Kind::change_header;
      may = allowed(action::kChangeHeaders);
      whole = indexed() && text(edit.name) && text(edit.value);
      break;
    case 'b':
      edit.kind = Kind::replace_body;
      may = allowed(action::kChangeBody);
      edit.value = rest;
      rest = {};
      whole = true;
      break;
    case '+':
    case '2':
      edit.kind = Kind::add_recipient;
      may = allowed(packet.code == '+' ? action::kAddRecipients : action::kAddRecipientsWithParameters);
      whole = text(edit.name) && (packet.code == '+' || rest.empty() || text(edit.value));
      break;
    case '-':
      edit.kind = Kind::remove_recipient;
      may = allowed(action::kRemoveRecipients);
      whole = text(edit.name);
      break;
    case 'e':
      edit.kind = Kind::change_sender;
      may = allowed(action::kChangeSender);
      whole = text(edit.name) && (rest.empty() || text(edit.value));
      break;
    case 'q':
      edit.kind = Kind::quarantine;
      may = allowed(action::kQuarantine);
      whole = text(edit.value);
      break;
    default:
      return std::nullopt;
  }
  if (!whole || !rest.empty()) return malformed(std::string("data of '") + packet.code + "'");
  if (!may) return fail(MilterError::incompatible, std::string("'") + packet.code + "' was not agreed on");
  return edit;
}

Result<std::vector<std::string>> parse_reply(std::string_view text) {
  std::vector<std::string> lines;
  for (std::string_view rest = text;;) {
    const auto end = rest.find("\r\n");
    std::string line;
    const std::string_view raw = rest.substr(0, end);
    for (std::size_t i = 0; i < raw.size(); ++i) {
      // A filter doubles each %; a single one is dropped.
      if (raw[i] != '%')
        line += raw[i];
      else if (i + 1 < raw.size() && raw[i + 1] == '%')
        line += raw[i++];
    }
    const bool last = end == std::string_view::npos;
    const auto control = [](char c) { return static_cast<unsigned char>(c) < 32 && c != '\t'; };
    // A digit behind the code begins an enhanced one, and that has the code's class.
    const bool shaped = line.size() > 4 && (line[0] == '4' || line[0] == '5') && ascii_digit(line[1]) &&
                        ascii_digit(line[2]) && line[3] == (last ? ' ' : '-') &&
                        (!ascii_digit(line[4]) || line[4] == line[0]);
    if (!shaped || std::ranges::any_of(line, control) || lines.size() == kMaxReplyLines ||
        (!lines.empty() && lines.front().compare(0, 3, line, 0, 3) != 0))
      return fail(MilterError::bad_reply, printable(text, 100));
    lines.push_back(std::move(line));
    if (last) return lines;
    rest.remove_prefix(end + 2);
  }
}

Result<std::optional<Final>> parse_final(const Packet& packet) {
  const auto bare = [&](Final final) -> Result<std::optional<Final>> {
    if (!packet.data.empty()) return malformed(std::string("data of '") + packet.code + "'");
    return final;
  };
  switch (packet.code) {
    case 'c':
      return bare({Answer::go_on, {}});
    case 'a':
      return bare({Answer::accept, {}});
    case 's':
      return bare({Answer::skip, {}});
    case 'd':
      return bare({Answer::discard, {}});
    case 'r':
      return bare({Answer::refuse, {"550 5.7.1 Command rejected"}});
    case 't':
      return bare({Answer::refuse, {"451 4.7.1 Service unavailable - try again later"}});
    case '4':
      return bare({Answer::refuse, {"421 4.7.0 Server closing connection"}});
    case 'p':
      if (!packet.data.empty()) return malformed("data of 'p'");
      return std::nullopt;
    case 'y': {
      if (packet.data.empty() || packet.data.find('\0') != packet.data.size() - 1) return malformed("data of 'y'");
      PEN_TRY_ASSIGN(auto lines, parse_reply(packet.data.substr(0, packet.data.size() - 1)));
      return Final{Answer::refuse, std::move(lines)};
    }
    default:
      return malformed(std::string("'") + (packet.code > 32 && packet.code < 127 ? packet.code : '?') + "'");
  }
}

}  // namespace pen::milter
