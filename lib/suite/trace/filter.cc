#include "lib/suite/trace/filter.h"

#include <algorithm>
#include <iterator>

#include "lib/base/text.h"
#include "lib/mail/address.h"

namespace pen::trace {
namespace {

std::vector<std::string> in_lower_case(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  std::ranges::transform(words, std::back_inserter(out), [](const std::string& w) { return to_lower(w); });
  return out;
}

/// word: in lower case; ".example.org" is what is below example.org.
bool name_fits(const std::string& word, const std::string& name) {
  return word.starts_with('.') ? name.size() > word.size() && name.ends_with(word) : name == word;
}

std::string_view host_problem(const std::string& word) {
  const bool numeric = word.find_first_not_of("0123456789./") == std::string::npos || word.contains(':');
  if (numeric && !parse_network(word)) return "neither an address nor a network";
  return {};
}

}  // namespace

HostWords::HostWords(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (auto network = parse_network(word))
      networks_.push_back(*std::move(network));
    else
      names_.push_back(to_lower(word));
  }
}

bool HostWords::fits(std::string_view address, std::string_view name) const {
  if (empty()) return true;
  if (const auto ip = parse_ip(address))
    if (std::ranges::any_of(networks_, [&](const Network& n) { return n.contains(*ip); })) return true;
  const std::string lower = to_lower(name);
  return !lower.empty() && std::ranges::any_of(names_, [&](const std::string& w) { return name_fits(w, lower); });
}

Filter::Filter(const ipc::trace::Filter& words)
    : clients_(words.clients),
      hosts_(words.hosts),
      domains_(in_lower_case(words.domains)),
      recipients_(in_lower_case(words.recipients)),
      queue_ids_(words.queue_ids) {}

std::string Filter::problem(const ipc::trace::Filter& words) {
  for (const auto* list : {&words.clients, &words.hosts, &words.domains, &words.recipients, &words.queue_ids}) {
    if (list->size() > ipc::trace::kMaxWords) return "more than " + std::to_string(ipc::trace::kMaxWords) + " words";
    for (const std::string& word : *list)
      if (word.empty() || word.size() > ipc::trace::kMaxWord) return "an empty word, or one that is too long";
  }
  for (const auto* list : {&words.clients, &words.hosts})
    for (const std::string& word : *list)
      if (const auto wrong = host_problem(word); !wrong.empty())
        return std::string(wrong) + ": " + printable(word, 100);
  for (const std::string& word : words.domains)
    if (word.contains('@')) return "not a domain: " + printable(word, 100);
  for (const std::string& word : words.recipients)
    if (!word.contains('@')) return "neither an address nor @domain: " + printable(word, 100);
  return {};
}

bool Filter::domain_fits(std::string_view address) const {
  const std::string domain = to_lower(mail::domain_part(address));
  return std::ranges::any_of(domains_, [&](const std::string& w) { return name_fits(w, domain); });
}

bool Filter::recipient_fits(std::string_view address) const {
  const std::string lower = to_lower(address);
  return std::ranges::any_of(
      recipients_, [&](const std::string& w) { return w.starts_with('@') ? lower.ends_with(w) : lower == w; });
}

bool Filter::queue_id_fits(std::string_view id) const {
  return std::ranges::any_of(queue_ids_, [&](const std::string& w) { return w == id; });
}

}  // namespace pen::trace
