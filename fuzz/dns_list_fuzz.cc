// DNS lists as settings name them, and templates of replies, of any shape: no crash; what a filter takes is what its
// text says; no character from a client's words gets past the filter.
#include <cstdlib>

#include "lib/meaning/smtpd/reply_text.h"
#include "lib/net/dnsbl/list.h"
#include "lib/net/dnsbl/question.h"

using namespace pen;

namespace {

/// Takes what is before the next line end.
std::string_view line(std::string_view& rest) {
  const auto end = rest.find('\n');
  const auto taken = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return taken;
}

void check_list(std::string_view text) {
  if (const auto site = dnsbl::parse_site(text)) {
    if (site->weight > dnsbl::kMaxWeight || site->weight < -dnsbl::kMaxWeight) std::abort();
    // What is parsed can be parsed again, alone.
    const auto list = dnsbl::parse_list(site->list.text);
    if (!list || list->domain != site->list.domain || !text.starts_with(list->domain)) std::abort();
    const dnsbl::Answer answer{.state = dnsbl::Answer::State::listed, .addresses = {{127, 0, 0, 2}}, .ttl = {}};
    if (dnsbl::hits(*list, answer) != (!list->filter || list->filter->matches({127, 0, 0, 2}))) std::abort();
  }
  // An address is a filter, which takes itself and nothing else.
  const dnsbl::Ipv4 some{static_cast<std::uint8_t>(text.size()), 0, 0, 2};
  const auto own = dnsbl::Filter::parse(dnsbl::text_of(some));
  if (!own || !own->matches(some) || own->matches({some[0], 0, 0, 3})) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const auto list = line(rest), subject = line(rest), value = line(rest).substr(0, 100);
  check_list(list);
  for (const auto& question : {dnsbl::about_name(subject, list), dnsbl::about_address(subject, list)})
    if (question && (question->size() > 253 || question->empty())) std::abort();
  const config::Lookup names = [&](std::string_view) { return std::string(value); };
  // A template without text of its own: only the value is left, and of it only what the filter lets pass.
  for (const char c : smtpd::expand_reply("$helo_name", names, "ab$").text)
    if (!std::string_view("ab$_").contains(c)) std::abort();
  const std::string problem = smtpd::template_problem(rest, smtpd::ReplyNames::of_dns_lists);
  const auto expanded = smtpd::expand_reply(rest, names, smtpd::unescape(subject));
  // What was found to be good can be expanded, but for the depth of nesting and compared levels, which need values.
  if (problem.empty() && !expanded.error.empty() && !expanded.error.contains("level") &&
      !expanded.error.contains("deep"))
    std::abort();
  return 0;
}
