#include "lib/base/metrics/labels.h"

#include <algorithm>

namespace pen::metrics {
namespace {

/// The value of that word; `otherwise` if there is none.
template <class L>
L value_of(std::string_view word, L otherwise) {
  const auto& all = Label<L>::values;
  const auto at = std::ranges::find(all, word);
  return at == all.end() ? otherwise : static_cast<L>(at - all.begin());
}

}  // namespace

Code code_of(std::string_view reply) {
  return value_of(reply.substr(0, 3), reply.starts_with('4') ? Code::c4xx : Code::c5xx);
}

Enhanced enhanced_of(std::string_view reply) {
  reply.remove_prefix(std::min<std::size_t>(4, reply.size()));
  const std::string_view word = reply.substr(0, reply.find_first_of(" \r\n"));
  const bool is_code = word.size() >= 5 && word[1] == '.' && (word[0] == '4' || word[0] == '5') &&
                       word.find_first_not_of("0123456789.") == std::string_view::npos;
  return is_code ? value_of(word, Enhanced::other) : Enhanced::none;
}

TlsVersion version_of(std::string_view protocol) { return value_of(protocol, TlsVersion::other); }

Stage stage_of(std::string_view command) {
  const auto is = [&](std::string_view name) { return command.starts_with(name); };
  if (is("CONNECT")) return Stage::connect;
  if (is("HELO") || is("EHLO")) return Stage::helo;
  if (is("STARTTLS")) return Stage::starttls;
  if (is("AUTH")) return Stage::auth;
  if (is("MAIL")) return Stage::mail;
  if (is("RCPT")) return Stage::rcpt;
  if (is("DATA") || is("BDAT")) return Stage::data;
  if (is("END-OF-MESSAGE")) return Stage::end_of_message;
  return Stage::other;
}

Agent agent_of(std::string_view program) { return value_of(program, Agent::other); }

}  // namespace pen::metrics
