#include "smtp/domains.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>

#include "lib/base/text.h"

namespace pen::smtp {

namespace {
std::string domain_of(std::string_view address) {
  const auto at = address.rfind('@');
  return at == std::string_view::npos ? std::string() : to_lower(address.substr(at + 1));
}

/// True for replies such as "Multiple destination domains per transaction is unsupported", "Recipients belong to
/// multiple regions" and "one domain per message".
bool speaks_of_domains(std::string_view reply) {
  const std::string text = to_lower(reply);
  const auto has = [&text](std::string_view words) { return text.find(words) != std::string::npos; };
  if (has("multiple regions")) return true;
  return has("domain") && (has("multiple") || has("one domain") || has("single domain") || has("different domain") ||
                           has("same domain"));
}
}  // namespace

std::vector<bool> want_one_domain(const Job& job, const JobDone& done) {
  const auto put_off = [&](std::size_t i) { return done.results[i].action == mail::Action::deferred; };
  bool any = false;
  for (std::size_t i = 0; i < done.results.size() && !any; ++i) any = put_off(i);
  if (!any || done.cut_short || done.own_fault || done.results.size() < 2) return {};
  std::unordered_map<std::string, bool> taken;  // domain: some recipient was accepted
  for (std::size_t i = 0; i < done.results.size(); ++i)
    taken[domain_of(job.recipients[i].recipient.address)] |= done.results[i].dsn.starts_with('2');
  if (taken.size() < 2) return {};
  const bool some = std::any_of(taken.begin(), taken.end(), [](const auto& d) { return d.second; });
  std::vector<bool> out(done.results.size());
  const std::string* last = nullptr;  // most recipients have the same reply
  bool says_so = false;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!put_off(i)) continue;
    const std::string& text = done.results[i].text;
    if (last == nullptr || *last != text) says_so = speaks_of_domains(text);
    last = &text;
    out[i] = says_so || (some && !taken[domain_of(job.recipients[i].recipient.address)]);
  }
  return out;
}

}  // namespace pen::smtp
