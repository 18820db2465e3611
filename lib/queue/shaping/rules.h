#pragma once
/// Rules about the replies of receivers: what a reply complains of, and what has to go slower for it.
///
/// Use:     auto rules = read_rules_file(path)                       (rules_file.h)
///          const Provider* p = rules.provider_of(hosts);            // all of them must be of one provider
///          const Rule* r = rules.classify(p, own_words(reply, addresses));  // nullptr: it complains of nothing
/// Rules:   the first that fits, in order; the code decides first, then the enhanced code, then the words; a regular
///          expression is asked only where all that fits.
/// Words:   both sides in lower case, white space and line ends as one space, without the codes that begin each line of
///          a reply, so that a phrase is found across its lines.
/// Bounds:  a reply is looked at up to kMaxReply bytes; a regular expression has a limit of steps, and what exceeds it
///          does not fit.
/// Thread:  read-only after it was read: any.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lib/base/network.h"
#include "lib/base/time.h"
#include "lib/queue/shaping/limit.h"

struct pcre2_real_code_8;

namespace pen::shaping {

/// What a reply complains of.
enum class Class : std::uint8_t {
  none,           // nothing that is ours to change: a rule that keeps others from fitting
  rate,           // too many messages in a time
  connections,    // too many connections at once
  messages,       // too many messages on one connection
  recipient,      // too much for one recipient
  reputation,     // what was sent is not liked: less of it is taken
  block,          // nothing is taken from there
  configuration,  // what the sender's domain or host declares of itself: no rate helps
};
/// What goes slower.
enum class Scope : std::uint8_t {
  source,           // all that leaves from this address for the provider
  signing_domain,   // mail signed by this domain
  from_domain,      // mail from addresses in this domain
  envelope_domain,  // mail with an envelope sender in this domain
  recipient,        // mail for this recipient
  provider,         // all mail for the provider, whatever address it leaves from
  host,             // this host of the provider
};
/// A refusal for good that complains of this is no word about the recipient or the message: they wait.
constexpr bool puts_off(Class c) { return c != Class::none && c != Class::configuration; }
std::string_view word(Class c);
std::string_view word(Scope s);
std::optional<Class> class_of(std::string_view word);
std::optional<Scope> scope_of(std::string_view word);
/// The scope is the sender's domain, by one of its names.
constexpr bool of_domain(Scope s) {
  return s == Scope::signing_domain || s == Scope::from_domain || s == Scope::envelope_domain;
}

struct Provider {
  std::string name;
  std::vector<std::string> suffixes;  // ".google.com": names below it; "mx.example": this one; lower case
  std::vector<Network> networks;      // of its addresses
  Limit limit;                        // of all its hosts together
  bool has(std::string_view host) const;
};

/// A host of a route.
struct Host {
  std::string name;
  std::string address;  // numeric; empty: not known
};

/// A reply, made ready to be looked at.
struct Reply {
  unsigned code = 0;  // 0: there was none
  std::string dsn;    // "4.7.28"; may be empty
  std::string words;  // as Words above says
};
inline constexpr std::size_t kMaxReply = 2048;
/// From the peer's own words, "421-4.7.28 … 421 4.7.28 …", as mail::Reply::text joins them.
Reply reply_of(std::string_view text);

/// Enhanced codes from one to another: class.subject.first to class.subject.last.
struct Codes {
  std::string prefix;  // "4.7."
  unsigned first = 0, last = 0;
};

struct Rule {
  std::string name;
  std::vector<std::string> providers;  // empty: all
  std::vector<std::string> codes;      // "4", "45", "451"; empty: 4 and 5
  std::vector<Codes> dsn;              // empty: any
  std::vector<std::string> texts;      // all of them occur
  std::shared_ptr<const pcre2_real_code_8> regex;
  std::string pattern;  // of the regex, as written
  Class cls = Class::none;
  Scope scope = Scope::source;
  std::optional<seconds> pause;
  std::string where;  // "file:line"

  bool fits(const Provider* provider, const Reply& reply) const;
};

class Rules {
 public:
  /// The provider that all of these hosts belong to; nullptr: there is none. By the longest part of its name that a
  /// provider has, else by the smallest network that its address is in.
  const Provider* provider_of(const std::vector<Host>& hosts) const;
  const Provider* provider_of(std::string_view name, std::string_view address) const;
  const Provider* provider(std::string_view name) const;
  const std::vector<std::shared_ptr<const Provider>>& providers() const { return providers_; }
  const std::vector<Rule>& rules() const { return rules_; }
  /// Whether any provider has a limit.
  bool limits() const;
  const Rule* classify(const Provider* provider, const Reply& reply) const;

  /// Those of the same names go; rules of a later call are asked before those of an earlier one.
  void add(std::vector<Provider> providers);
  void add(std::vector<Rule> rules);

 private:
  std::vector<std::shared_ptr<const Provider>> providers_;
  std::unordered_map<std::string, const Provider*> by_suffix_;
  // By its bits, the smallest network first.
  std::multimap<std::uint8_t, std::pair<Network, const Provider*>, std::greater<>> by_network_;
  std::vector<Rule> rules_;
  void index();
};

}  // namespace pen::shaping
