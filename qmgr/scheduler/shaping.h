#pragma once
/// Shaping: how much mail receivers accept, by provider and by what their complaints name (lib/queue/shaping has
///          rules and
/// learning).
///
/// State:    groups (a provider, or the hosts of a route), senders, their gates; recipients that rest.
/// Use:      enter() where a cluster, route or destination is made, leave() where it goes; each_gate() names the gates
///           of a job; complained() for each refusal, delivered() for each success. gates.cc moves the jobs that wait
///           at a gate.
/// Keys:     a job's source, its sender's domain and its tenant are opaque words here.
/// Cluster:  with destdb_backend = redis the hosts keep a gate's rate together (lib/queue/shaping/shared_rates.h),
///           except one of this host's own address; each has its share of the connections that are set or learned.
/// Source:   docs/shaping.md.
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lib/mail/delivery_status.h"
#include "lib/queue/destdb/facts.h"
#include "lib/queue/shaping/shared_rates.h"
#include "qmgr/scheduler/ceilings.h"
#include "qmgr/scheduler/clock.h"
#include "qmgr/scheduler/gate.h"
#include "qmgr/scheduler/job.h"
#include "qmgr/scheduler/message.h"
#include "qmgr/scheduler/scheduler.h"
#include "qmgr/scheduler/spent.h"

namespace pen::qmgr::scheduler {

class Shaping {
 public:
  Shaping(const Options& options, const Clock& clock, destdb::Table& table)
      : options_(options),
        clock_(clock),
        table_(table),
        sets_limits_(on() && (options.shaping->limit || options.shaping->rules.limits())),
        spent_(clock) {}
  /// Whether something may be limited: else nothing here is asked.
  bool on() const { return options_.shaping != nullptr; }

  // --- groups and their clusters ---
  /// from: it is that one without some of its hosts, or in another order.
  void enter(Cluster& c, const Cluster* from = nullptr);
  void leave(Cluster& c);
  void enter(Destination& d);
  void leave(Destination& d);
  /// signer: another domain that signs it; empty: none is known.
  void enter(Message& m, std::string_view sender_domain, std::string_view signer);
  void leave(Message& m);

  // --- gates ---
  /// Of a job that has a route: the source that it leaves from (docs/egress.md); "": the one of this host.
  static std::string_view source_of(const Job& j);
  static std::string_view source_of(const Cluster& c);
  /// The gates of a job that has a route, by their kinds; most do not exist.
  static constexpr unsigned kSends = 6, kSigns = 7, kKinds = 8;  // the last two are of the domain that sends or signs
  Gate* gate_of(const Job& j, unsigned kind);
  /// The gates that limit anything.
  template <class F>
  void each_gate(const Job& j, F&& f) {
    const auto of = [&](Gate* g, unsigned kind) {
      if (g != nullptr && g->limits()) f(*g, static_cast<std::uint8_t>(1U << kind));
    };
    for (unsigned kind = 0; kind < kSends; ++kind) of(gate_of(j, kind), kind);
    const auto [sends, signs] = flows_of(j);
    if (sends != nullptr) of(sends->sends.gate.get(), kSends);
    if (signs != nullptr) of(signs->signs.gate.get(), kSigns);
  }
  /// The administrator's limits may have changed: once for each look at a job's gates.
  void judge(const Job& j);
  /// Whether another job may pass, or (at_hand) one that has passed may begin.
  bool open(Gate& g, bool at_hand);
  /// A limit may rise with time: called when a gate is looked at.
  void refresh(Gate& g);
  /// How many jobs wait at the gates that this one has passed, and would come within a second at the gates' rates if
  /// there were connections for those that have passed: a gate lets no more pass than its limit, so its line is not
  /// seen in the pool.
  std::size_t waiting_behind(const Job& j);
  /// When it lets the next one through, as far as is known; kNever: when something ends.
  SteadyTime opens(const Gate& g) const;
  void take(Gate& g);
  void delivered(const Job& j);
  void set_waking(Gate& g);
  void mark(Gate& g);
  /// One that may let a job through; nullptr: there is none.
  Gate* next_dirty();
  bool any_dirty() const { return !dirty_.empty(); }
  void wake_due();
  SteadyTime next_wake() const { return waking_.empty() ? kNever : waking_.begin()->first; }
  /// The status of a job of this party that cannot wait here; nullopt: it can.
  std::optional<mail::DeliveryStatus> put_off(Gate& g, Party* party);
  static std::string shown(const Gate& g);

  // --- connections ---
  /// Whether the provider of the host has as many connections as it accepts.
  bool full(const Destination& d) const;
  std::uint32_t connections(const Group& g) const;
  void opened(Group& g);

  // --- complaints ---
  /// message: the one complained of; nullptr: none that the peer has heard of.
  std::optional<ComplaintVerdict> complained(const Cluster& cluster, Destination& from, const Message* message,
                                             std::string_view source, const MailAddresses& of,
                                             const mail::DeliveryStatus& status, const Ceilings& ceilings);
  /// The rules by which the program sees that a refusal of this job will be put off.
  void tell_rules(const Cluster& cluster, HandJob& job) const;
  /// How long the recipient rests; 0: it does not.
  seconds recipient_rests(std::string_view recipient);
  static mail::DeliveryStatus resting_recipient(seconds rest);
  // --- the cluster ---
  /// More mail under a rate may go now.
  void rate_ready(const std::string& key);
  /// Another host learned this of a limit, so long ago.
  void rate_heard(const std::string& key, std::string_view text, milliseconds age);
  /// Others may have learned of the gates of a job for which no tokens are asked.
  void listen(const Job& j);

  std::vector<ShapingNews> take_news() { return std::exchange(news_, {}); }
  SpentQuotas& spent() { return spent_; }

  // --- people ---
  void each(const std::function<void(const LimitState&)>& see);
  void each_named(const std::function<void(const LimitState&)>& see);
  /// Those that such mail meets by this route.
  std::vector<LimitState> of(const RouteSet& r, const MailOf& mail);
  std::vector<LimitState> of(const Destination& d);
  /// The group of this name; nullptr: it is not in memory.
  Group* group(std::string_view name) const;
  /// An administrator's order: a rate that is not exceeded, or the end of that order. False: there is no such
  /// provider or group.
  bool order(std::string_view group, const shaping::Rates& rates);
  /// Forgets what was learned of the group. Returns how many limits there were.
  std::size_t forget(std::string_view group);

 private:
  Group& group_of(const std::string& name, const shaping::Provider* provider);
  Gate& source_gate(Group& g, std::string_view source);
  Gate* named_source(std::string_view source);
  Sender& sender_of(std::string_view domain);
  /// nullptr: the group is no provider, so that its senders are not distinguished; or s is nullptr.
  Flow* flow_of(Sender* s, Group& g);
  /// Of the domain that sends it, and of the one that signs it, which for most mail is the same.
  std::pair<Flow*, Flow*> flows_of(const Job& j);
  /// What is not known to be signed by another domain counts as signed by the sender's.
  static Sender* signer_of(const Message& m) { return m.signer != nullptr ? m.signer : m.sender; }
  /// "d=example.org": the domain of a gate for what this domain signs.
  static std::string signed_by(std::string_view domain) { return "d=" + std::string(domain); }
  Gate* named(const std::string& name);
  void judge(Group& g);
  Gate& make_gate(Flow& f, Flow::Side& side, const Sender& s);
  /// wanted: only these gates; empty: all.
  std::vector<LimitState> of_group(Group& g, const std::function<bool(const Gate&)>& wanted = {});
  /// nullptr: the gate is this host's own, or there is no cluster.
  shaping::SharedRates* together(const Gate& g) const;
  /// How many may be under way from this host; 0: any number.
  std::uint32_t deliveries(const Gate& g) const;
  void share(Gate& g);
  /// The gate's windows follow what is set and ordered, and the number of hosts.
  void set_quotas(Gate& g);
  std::uint32_t hosts() const;
  void load(Gate& g);
  void keep(Gate& g);
  void tell_others(Gate& g, milliseconds age = {});
  void learned_changed(Gate& g);
  void sweep();
  void tell(bool warning, std::string text) { news_.push_back({warning, std::move(text)}); }
  /// Whether this is the first time in an hour.
  bool tell_again(const std::string& what);
  Gate* gate_for(const Cluster& c, shaping::Scope scope, const Message* message, std::string_view source);
  void complained_of_rate(Gate& g, const shaping::Rule& rule, std::string_view words, std::optional<seconds> pause,
                          std::uint64_t last_minute, bool slows);
  void complained_of_connections(const Cluster& c, Destination& from, std::string_view source,
                                 const shaping::Rule& rule, std::optional<seconds> pause, const Ceilings& ceilings);
  /// Whether the complaint counts a connection that is being closed.
  bool of_one_that_left(Group& g) const;
  static constexpr seconds kTellAgain{3600};
  LimitState state_of(Gate& g);
  bool old(SteadyTime judged) const { return judged + options_.rule_time <= clock_.now; }

  const Options& options_;
  const Clock& clock_;
  destdb::Table& table_;
  const bool sets_limits_;  // the administrator
  std::unordered_map<std::string, std::unique_ptr<Group>> groups_;
  std::unordered_map<std::string, std::unique_ptr<Sender>> senders_;
  std::map<std::string, std::unique_ptr<Gate>, std::less<>> named_;  // the administrator's, and those asked for in vain
  struct NamedSource {
    Gate* gate = nullptr;
    SteadyTime judged{};
  };
  std::map<std::string, NamedSource, std::less<>> named_sources_;
  std::unordered_map<std::string, Gate*> shared_;  // by Gate::shared_key
  std::set<std::pair<SteadyTime, Gate*>> waking_;
  std::vector<Gate*> dirty_;
  std::map<std::string, SteadyTime, std::less<>> resting_recipients_;
  std::map<std::string, SteadyTime, std::less<>> told_;  // when, by sender's domain and rule
  std::vector<ShapingNews> news_;
  SteadyTime swept_{};
  SpentQuotas spent_;
};

}  // namespace pen::qmgr::scheduler
