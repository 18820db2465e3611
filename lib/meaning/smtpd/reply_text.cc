#include "lib/meaning/smtpd/reply_text.h"

#include <algorithm>
#include <span>

#include "lib/base/text.h"

namespace pen::smtpd {
namespace {

constexpr std::string_view kSessionNames[] = {
    "client",      "client_address", "client_name",    "client_port",     "reverse_client_name",
    "helo_name",   "server_name",    "localtime",      "sender",          "sender_domain",
    "sender_name", "recipient",      "recipient_name", "recipient_domain"};
constexpr std::string_view kListNames[] = {"rbl_class", "rbl_code", "rbl_domain", "rbl_reason", "rbl_txt", "rbl_what"};

bool has(std::span<const std::string_view> words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}
bool is_name(std::string_view name, ReplyNames names) {
  return has(kSessionNames, name) || (names == ReplyNames::of_dns_lists && has(kListNames, name));
}

}  // namespace

std::string template_problem(std::string_view text, ReplyNames names) {
  std::string problem;
  for (const auto& use : config::names_in(text, &problem))
    if (!is_name(use.name, names)) return "unknown name $" + printable(use.name, 60);
  return problem;
}

config::Expanded expand_reply(std::string_view text, const config::Lookup& lookup, std::string_view filter) {
  return config::expand(text, [&](std::string_view name) -> std::optional<std::string> {
    const auto value = lookup(name);
    if (!value) return std::nullopt;
    std::string out;
    for (const char c : *value) {
      out += filter.contains(c) ? c : '_';
      if (out.back() == '$') out += '$';  // a literal dollar in the "$name" language
    }
    return out;
  });
}

std::string unescape(std::string_view text) {
  constexpr std::string_view kLetters = "abfnrtv", kMeanings = "\a\b\f\n\r\t\v";
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    const char c = text[++i];
    if (const auto letter = kLetters.find(c); letter != std::string_view::npos) {
      out += kMeanings[letter];
    } else if (c >= '0' && c <= '7') {
      unsigned value = 0;
      std::size_t digits = 0;
      for (; digits < 3 && i + digits < text.size() && text[i + digits] >= '0' && text[i + digits] <= '7'; ++digits)
        value = value * 8 + static_cast<unsigned>(text[i + digits] - '0');
      out += static_cast<char>(value & 0xff);
      i += digits - 1;
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace pen::smtpd
