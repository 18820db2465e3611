#include "lib/trust/spf/check.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "lib/base/text.h"
#include "lib/trust/spf/macro.h"
#include "lib/trust/spf/record.h"

namespace pen::spf {
namespace {

using net::DnsOutcome;
using net::RecordType;

/// Whether SPF asks about such a domain at all: RFC 7208 section 4.3.
bool is_domain(std::string_view name) {
  if (name.ends_with('.')) name.remove_suffix(1);
  if (name.empty() || name.size() > 253 || !name.contains('.')) return false;
  while (!name.empty()) {
    const auto end = std::min(name.find('.'), name.size());
    if (end == 0 || end > 63 || name.substr(0, end).find_first_of(" []@") != name.npos) return false;
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return true;
}

bool same_prefix(const IpAddress& a, const IpAddress& b, unsigned bits) {
  if (a.size != b.size) return false;
  const std::size_t whole = bits / 8;
  if (!std::equal(a.bytes.begin(), a.bytes.begin() + whole, b.bytes.begin())) return false;
  return bits % 8 == 0 || ((a.bytes.at(whole) ^ b.bytes.at(whole)) >> (8 - bits % 8)) == 0;
}

bool within(std::string_view name, std::string_view domain) {
  return iequals(name, domain) || (name.size() > domain.size() && name[name.size() - domain.size() - 1] == '.' &&
                                   iequals(name.substr(name.size() - domain.size()), domain));
}

std::string reverse_name(const IpAddress& address) {
  MacroValues values;
  values.client = address;
  return expand("%{ir}.%{v}.arpa", values);
}

/// One evaluation. Its tasks run one within the other.
class Evaluation {
 public:
  Evaluation(const Records& records, const Question& question, async::Until until)
      : records_(records), client_(question.client), until_(until), allowance_(question.allowance) {
    values_.sender = question.sender;
    values_.helo = question.helo;
    values_.receiver = question.receiver;
    values_.client = question.client;
    values_.now = question.now;
  }

  /// The result for a domain. whole: its explanation counts, that of an included record does not.
  async::Task<Verdict> domain(std::string name, bool whole);
  std::string reason, explanation;

 private:
  enum class Match : std::uint8_t { no, yes, temperror, permerror };

  [[gnu::noinline]] async::Task<net::DnsAnswer> ask(std::string name, RecordType type) {
    if (name.empty()) {
      net::DnsAnswer none;
      none.outcome = DnsOutcome::no_domain;
      co_return none;
    }
    if (allowance_ != nullptr) {
      if (allowance_->questions == 0) {
        spent_ = true;
        co_return net::DnsAnswer{};  // as no answer; domain() tells
      }
      --allowance_->questions;
    }
    co_return co_await records_(std::move(name), type, until_);
  }
  RecordType address_type() const { return client_.size == 16 ? RecordType::aaaa : RecordType::a; }
  bool has_client(const net::DnsAnswer& answer, unsigned bits) const {
    return std::ranges::any_of(answer.records, [&](const net::DnsRecord& record) {
      const auto ip = parse_ip(record.data);
      return ip && same_prefix(*ip, client_, bits);
    });
  }
  unsigned bits_of(const Directive& d) const { return client_.size == 16 ? d.bits6 : d.bits4; }

  Match broken(std::string text) {
    reason = std::move(text);
    return Match::permerror;
  }
  Match silent(std::string_view name) {
    if (spent_) return broken("more questions to DNS than one message may ask");
    reason = "no answer from DNS about " + printable(name, 100);
    return Match::temperror;
  }
  /// Counts a term that asks DNS. False: there are too many.
  bool one_more_term() {
    if (++terms_ <= kMostTerms) return true;
    reason = "more than 10 terms that ask DNS";
    return false;
  }
  /// What an answer without records, or none at all, means for its term.
  Match missing(const net::DnsAnswer& answer, std::string_view name) {
    if (answer.outcome == DnsOutcome::temporary) return silent(name);
    return ++void_ > kMostVoid ? broken("more than 2 names without records") : Match::no;
  }

  [[gnu::noinline]] async::Task<std::string> target_of(std::string text);
  [[gnu::noinline]] async::Task<Match> matches(const Directive& directive);
  [[gnu::noinline]] async::Task<Match> include(std::string name);
  [[gnu::noinline]] async::Task<Match> address(std::string name, unsigned bits);
  [[gnu::noinline]] async::Task<Match> exchangers(std::string name, unsigned bits);
  [[gnu::noinline]] async::Task<Match> exists(std::string name);
  [[gnu::noinline]] async::Task<Match> pointer(std::string name);
  [[gnu::noinline]] async::Task<void> find_client_names();
  /// Sets values_.validated.
  [[gnu::noinline]] async::Task<void> choose_client_name();
  [[gnu::noinline]] async::Task<void> explain(std::string text);
  [[gnu::noinline]] async::Task<std::optional<Verdict>> fetch(std::string name, Record& into);

  const Records& records_;
  IpAddress client_;
  async::Until until_;
  MacroValues values_;
  unsigned terms_ = 0, void_ = 0;
  Allowance* allowance_;
  bool spent_ = false;                                    // something was not asked for that was needed
  std::size_t hosts_ = 0;                                 // of MX sets, asked for their addresses
  std::optional<std::vector<std::string>> client_names_;  // those that lead back to the client
  bool client_names_void_ = false;
};

async::Task<void> Evaluation::find_client_names() {
  if (client_names_) co_return;
  client_names_.emplace();
  const net::DnsAnswer pointers = co_await ask(reverse_name(client_), RecordType::ptr);
  client_names_void_ = pointers.outcome == DnsOutcome::no_data || pointers.outcome == DnsOutcome::no_domain;
  std::size_t count = 0;
  for (const auto& pointer : pointers.records) {
    if (++count > kMostNames) break;
    const net::DnsAnswer back = co_await ask(pointer.data, address_type());
    if (has_client(back, client_.size == 16 ? 128 : 32)) client_names_->push_back(pointer.data);
  }
}

async::Task<void> Evaluation::choose_client_name() {
  co_await find_client_names();
  const auto& names = *client_names_;
  auto best = std::ranges::find_if(names, [&](const auto& n) { return iequals(n, values_.domain); });
  if (best == names.end()) best = std::ranges::find_if(names, [&](const auto& n) { return within(n, values_.domain); });
  if (best == names.end()) best = names.begin();
  values_.validated = best == names.end() ? "unknown" : *best;
}

async::Task<std::string> Evaluation::target_of(std::string text) {
  if (text.empty()) co_return values_.domain;
  if (names_client(text)) co_await choose_client_name();
  co_return expand_domain(text, values_);
}

async::Task<Evaluation::Match> Evaluation::include(std::string name) {
  const std::string outer = values_.domain;
  const Verdict verdict = co_await domain(name, false);
  values_.domain = outer;
  switch (verdict) {
    case Verdict::pass:
      co_return Match::yes;
    case Verdict::temperror:
      co_return Match::temperror;
    case Verdict::none:
      co_return broken("no SPF record at " + printable(name, 100));
    case Verdict::permerror:
      co_return Match::permerror;
    case Verdict::fail:
    case Verdict::softfail:
    case Verdict::neutral:
      break;
  }
  co_return Match::no;
}

async::Task<Evaluation::Match> Evaluation::address(std::string name, unsigned bits) {
  const net::DnsAnswer answer = co_await ask(name, address_type());
  if (answer.outcome != DnsOutcome::found) co_return missing(answer, name);
  co_return has_client(answer, bits) ? Match::yes : Match::no;
}

async::Task<Evaluation::Match> Evaluation::exchangers(std::string name, unsigned bits) {
  const net::DnsAnswer hosts = co_await ask(name, RecordType::mx);
  if (hosts.outcome != DnsOutcome::found) co_return missing(hosts, name);
  if (hosts.records.size() > kMostNames) co_return broken("more than 10 MX hosts of " + printable(name, 100));
  for (const auto& host : hosts.records) {
    if (++hosts_ > kMostHosts) co_return broken("more than 30 MX hosts in all");
    // Only the term counts as one without an answer: a host without an IPv6 address is nobody's mistake.
    const net::DnsAnswer answer = co_await ask(host.data, address_type());
    if (answer.outcome == DnsOutcome::temporary) co_return silent(host.data);
    if (has_client(answer, bits)) co_return Match::yes;
  }
  co_return Match::no;
}

async::Task<Evaluation::Match> Evaluation::exists(std::string name) {
  const net::DnsAnswer answer = co_await ask(name, RecordType::a);
  co_return answer.outcome == DnsOutcome::found ? Match::yes : missing(answer, name);
}

async::Task<Evaluation::Match> Evaluation::pointer(std::string name) {
  co_await find_client_names();
  if (client_names_void_ && ++void_ > kMostVoid) co_return broken("more than 2 names without records");
  co_return std::ranges::any_of(*client_names_, [&](const auto& n) { return within(n, name); }) ? Match::yes
                                                                                                : Match::no;
}

async::Task<Evaluation::Match> Evaluation::matches(const Directive& d) {
  switch (d.mechanism) {
    case Mechanism::all:
      co_return Match::yes;
    case Mechanism::ip4:
      co_return same_prefix(d.network, client_, d.bits4) ? Match::yes : Match::no;
    case Mechanism::ip6:
      co_return client_.size == 16 && same_prefix(d.network, client_, d.bits6) ? Match::yes : Match::no;
    default:
      break;
  }
  if (!one_more_term()) co_return Match::permerror;
  std::string name = co_await target_of(d.target);
  switch (d.mechanism) {
    case Mechanism::include:
      co_return co_await include(std::move(name));
    case Mechanism::a:
      co_return co_await address(std::move(name), bits_of(d));
    case Mechanism::mx:
      co_return co_await exchangers(std::move(name), bits_of(d));
    case Mechanism::exists:
      co_return co_await exists(std::move(name));
    default:
      co_return co_await pointer(std::move(name));
  }
}

async::Task<void> Evaluation::explain(std::string text) {
  const net::DnsAnswer answer = co_await ask(co_await target_of(std::move(text)), RecordType::txt);
  if (answer.outcome != DnsOutcome::found || answer.records.size() != 1) co_return;
  const std::string& said = answer.records.front().data;
  if (said.size() > kMaxExplanation || !is_macro_string(said, true)) co_return;
  if (names_client(said)) co_await choose_client_name();
  std::string out = expand(said, values_);
  const auto shown = [](char c) { return c >= ' ' && c <= '~'; };
  if (out.size() <= kMaxExplanation && std::ranges::all_of(out, shown)) explanation = std::move(out);
}

async::Task<std::optional<Verdict>> Evaluation::fetch(std::string name, Record& into) {
  const net::DnsAnswer answer = co_await ask(name, RecordType::txt);
  if (answer.outcome == DnsOutcome::temporary)
    co_return silent(name) == Match::temperror ? Verdict::temperror : Verdict::permerror;
  std::vector<std::string_view> found;
  for (const auto& record : answer.records)
    if (Record::is_one(record.data)) found.push_back(record.data);
  if (found.empty()) co_return Verdict::none;
  if (found.size() > 1) {
    reason = "several SPF records at " + printable(name, 100);
    co_return Verdict::permerror;
  }
  auto record = Record::parse(found.front());
  if (!record) {
    reason = record.error().message();
    co_return Verdict::permerror;
  }
  into = *std::move(record);
  co_return std::nullopt;
}

async::Task<Verdict> Evaluation::domain(std::string name, bool whole) {
  // A loop for redirect=; terms_ bounds it.
  for (bool redirected = false;; redirected = true) {
    values_.domain = name;
    Record record;
    std::optional<Verdict> decided = Verdict::none;
    if (is_domain(name)) decided = co_await fetch(name, record);
    if (redirected && decided == Verdict::none) {
      reason = "no SPF record at " + printable(name, 100);
      co_return Verdict::permerror;
    }
    if (decided) co_return *decided;
    for (const Directive& directive : record.directives) {
      Match match = co_await matches(directive);
      if (spent_) match = silent({});  // also where a client's names were looked for
      if (match == Match::temperror) co_return Verdict::temperror;
      if (match == Match::permerror) co_return Verdict::permerror;
      if (match == Match::no) continue;
      switch (directive.qualifier) {
        case Qualifier::pass:
          co_return Verdict::pass;
        case Qualifier::softfail:
          co_return Verdict::softfail;
        case Qualifier::neutral:
          co_return Verdict::neutral;
        case Qualifier::fail:
          break;
      }
      if (whole && !record.explanation.empty()) co_await explain(record.explanation);
      co_return Verdict::fail;
    }
    if (record.redirect.empty()) co_return Verdict::neutral;
    if (!one_more_term()) co_return Verdict::permerror;
    name = co_await target_of(record.redirect);
  }
}

}  // namespace

std::string_view verdict_word(Verdict verdict) {
  switch (verdict) {
    case Verdict::none:
      return "none";
    case Verdict::neutral:
      return "neutral";
    case Verdict::pass:
      return "pass";
    case Verdict::fail:
      return "fail";
    case Verdict::softfail:
      return "softfail";
    case Verdict::temperror:
      return "temperror";
    case Verdict::permerror:
      return "permerror";
  }
  return "unknown";
}

async::Task<Outcome> check(const Records& records, Question question, async::Until until) {
  Outcome out;
  const auto at = question.sender.rfind('@');
  if (at == std::string::npos || at == 0)
    question.sender = "postmaster@" + question.sender.substr(at == std::string::npos ? 0 : 1);
  out.domain = question.sender.substr(question.sender.rfind('@') + 1);
  if (question.client.size == 0) {
    out.reason = "the address of the client is not known";
    co_return out;
  }
  Evaluation evaluation(records, question, until);
  out.verdict = co_await evaluation.domain(out.domain, true);
  out.reason = std::move(evaluation.reason);
  out.explanation = std::move(evaluation.explanation);
  co_return out;
}

}  // namespace pen::spf
