/// Runs tests/scenario/*.scn over the real scheduler in virtual time. The language, a statement a line:
///
///   set NAME VALUE                     an option or limit, before the first arrive: workers concurrency initial
///                                      sessions combine recipients rate_delay threshold max_message scale routers
///                                      idle_age max_age backoff kept seed tls (none may encrypt)
///   known HOST closed AGO | retry IN | failed_retry AGO      what destdb remembers
///   route DOMAIN = HOST HOST … | HOST …                      preference levels
///   host HOST [connect D] [trip D] [reply D] [window N] [closes_after N] [refuses]     answers by itself, in virtual
///   time:
///                                      trip: the path there and back; reply: what it does for each job, one after
///                                      another
///   routing manual | auto              auto (the start): every look-up is answered at once
///   arrive MSG DOMAIN[*N] …            N recipients each
///   routed MSG ORDINAL DOMAIN | unroutable MSG ORDINAL
///   opened CONN [N]                    with a window of N
///   refused CONN [TROUBLE [WORDS]]     trouble: refused timed_out unreachable 4xx 5xx 421 tls local; what the host
///   says lost CONN [all|none [TROUBLE [WORDS]]]   how many jobs were unstarted; "all" when left out died CONN …
///   the same, and not the peer's doing replaced CONN | last CONN          its program ended before it opened; oldest
///   job done and peer closes at once done CONN [D]                      the oldest job in hand; service time D
///   put_off CONN [COUNT]               the same, but its host takes nothing for now, or not these many recipients
///   one_domain CONN COUNT              the same: these many, the last ones, were of another domain than it takes at
///   once cut CONN [TROUBLE]                 the peer hangs up within the oldest job in hand down | up | flush
///   the transport; an administrator's flush session_class N LIMIT HOST …       these hosts are a class of so many
///   connections at once, leased by the world seize N COUNT | leave N COUNT      other sessions of the class come and
///   go, whatever the limit yield N yes|no                     somebody wants a place in the class: whether an idle
///   connection closes suspend NAME [REASON] | resume NAME | forget HOST        an administrator's orders (pendest)
///   out_of_step CONN                   its peer broke under pipelining denied CONN | elsewhere HOST N | look_again
///   HOST | give_back HOST KEEP     what the other hosts of a cluster leave it learned HOST works | retry IN
///   what they know rule NAME …                        defer_destinations names these from now on flushed MSG
///   the message was flushed: defer_transports does not hold it suspect MSG                        every job of it
///   runs alone isolate CONN | withdraw MSG COUNT | advance D expect route MSG N | open CONN HOST[|HOST] | hand CONN
///   MSG|ANY [COUNT] | close CONN |
///          step_by_step CONN HOST          as open, and without pipelining
///          clear_text CONN HOST            as open, and without STARTTLS
///          defer MSG [COUNT [WORDS]]           what its status says
///   expect explain DOMAIN RULE [HOST …]   what would be chosen for a first message
///   expect served HOST at_most|at_least N    jobs, of hosts that answer by themselves
///   expect state HOST CLASS            as pendest shows it
///   expect retry HOST between D and D  when a failing one may be tried again
///   expect nothing                     every action so far was expected
///   expect finished MSG within D       after its arrival, of hosts that answer by themselves
///   expect connections N | delivered MSG N | in_hand N
/// Durations: 5ms 3s 2m 1h. An expected action is looked for among all not yet expected.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "qmgr/scheduler/scheduler.h"

namespace pen::qmgr {
namespace {

milliseconds duration(const std::string& text) {
  std::size_t used = 0;
  const double n = std::stod(text, &used);
  const std::string unit = text.substr(used);
  const double scale = unit == "ms" ? 1 : unit == "s" ? 1000 : unit == "m" ? 60'000 : unit == "h" ? 3'600'000 : -1;
  BOOST_REQUIRE_MESSAGE(scale > 0, "duration without unit: " << text);
  return milliseconds(static_cast<long long>(n * scale));
}

struct Host {
  milliseconds connect{0}, trip{0}, reply{0};
  std::uint32_t window = 1;
  std::uint32_t closes_after = 0;
  std::size_t served = 0;
  bool refuses = false;
  bool automatic = false;
};

struct Message {
  MessageNumber number = 0;
  std::vector<std::string> recipients;  // domains
  std::size_t delivered = 0, deferred = 0;
  SteadyTime arrived{};
  SteadyTime ended = kNever;
};

class World {
 public:
  void run(const std::filesystem::path& file) {
    std::ifstream in(file);
    std::string line;
    int number = 0;
    while (std::getline(in, line)) {
      ++number;
      if (const auto hash = line.find('#'); hash != std::string::npos) line.resize(hash);
      std::istringstream words(line);
      std::vector<std::string> w;
      for (std::string word; words >> word;) w.push_back(word);
      if (w.empty()) continue;
      where_ = file.filename().string() + ":" + std::to_string(number) + ": ";
      BOOST_TEST_CONTEXT(where_ << line) { step(w); }
    }
  }

 private:
  struct Timed {
    SteadyTime at;
    std::uint64_t order;
    std::function<void()> act;
    bool operator>(const Timed& o) const { return std::tie(at, order) > std::tie(o.at, o.order); }
  };
  struct Live {
    std::string host;
    std::deque<HandJob> in_hand;
    std::deque<SteadyTime> since;  // each of them
    std::uint32_t served = 0;
    bool replying = false;
  };

  Scheduler& core() {
    if (!core_) {
      random_.emplace(seed_);
      if (!rule_.empty()) set_rule();
      if (!class_of_.empty()) {
        options_.session_class = [this](std::string_view host,
                                        std::string_view) -> std::optional<Options::SessionClass> {
          const auto at = class_of_.find(host);
          if (at == class_of_.end()) return std::nullopt;
          return Options::SessionClass{at->second, "class " + std::to_string(at->second)};
        };
      }
      core_.emplace(options_, [this](std::string_view) { return limits_; }, table_, *random_);
      core_->set_time(now_, wall());
    }
    return *core_;
  }
  void set_rule() {
    options_.deferral_rule = [this](std::string_view name, std::string_view address) {
      return rule_.contains(name) || rule_.contains(address) ? "defer_destinations" : "";
    };
  }
  WallTime wall() const {
    return WallTime(std::chrono::duration_cast<microseconds>(now_.time_since_epoch()) + seconds(1'800'000'000));
  }

  ipc::Destination destination(const std::string& host) const {
    ipc::Destination d;
    d.tls.level = tls_;
    d.transport = "smtp";
    d.host = host;
    d.address = "addr-" + host;
    d.port = 25;
    return d;
  }
  ipc::route::Resolved resolved(const std::string& domain, std::uint32_t ordinal) const {
    ipc::route::Resolved r;
    r.transport = "smtp";
    r.nexthop = domain;
    r.recipient = "u" + std::to_string(ordinal) + "@" + domain;
    r.valid_for = valid_;
    auto it = routes_.find(domain);
    const std::vector<std::vector<std::string>> levels =
        it == routes_.end() ? std::vector<std::vector<std::string>>{{"mx." + domain}} : it->second;
    for (const auto& level : levels) {
      auto& out = r.levels.emplace_back();
      for (const auto& h : level) out.destinations.push_back(destination(h));
    }
    return r;
  }
  Message& message(const std::string& name) {
    BOOST_REQUIRE_MESSAGE(messages_.contains(name), where_ << "no message " << name);
    return messages_[name];
  }
  Message& message(MessageNumber n) { return messages_.at(by_number_.at(n)); }
  ConnectionNumber connection(const std::string& name) {
    BOOST_REQUIRE_MESSAGE(names_.contains(name), where_ << "no connection " << name);
    return names_[name];
  }

  void collect() {
    for (;;) {
      auto actions = core().take_actions();
      if (actions.empty()) return;
      for (auto& a : actions) std::visit([this](auto& x) { act(x); }, a);
    }
  }
  void act(RouteRecipient& a) {
    if (manual_) {
      pending_.emplace_back(a);
      return;
    }
    core().routed(a.message, a.ordinal, resolved(message(a.message).recipients.at(a.ordinal), a.ordinal));
  }
  void act(OpenConnection& a) {
    if (a.session_class) {
      SessionLimit& limit = session_limits_.at(*a.session_class);
      if (limit.count >= limit.most) {
        limit.refused = true;
        core().session_refused(a.connection);
        return;
      }
      ++limit.count;
      leased_[a.connection] = *a.session_class;
      core().session_granted(a.connection);
    }
    live_[a.connection].host = a.destination.host;
    const Host& h = hosts_[a.destination.host];
    if (!h.automatic) {
      pending_.emplace_back(a);
      return;
    }
    const auto c = a.connection;
    if (h.refuses) {
      at(h.connect, [this, c] {
        core().closed(c, false, ipc::delivery::Trouble::refused, {mail::Action::deferred, "4.4.1", "refused", {}, {}},
                      {});
        live_.erase(c);
        release(c);
      });
    } else {
      at(h.connect, [this, c] {
        ipc::delivery::Features f;
        f.window = hosts_[live_[c].host].window;
        f.round_trip = hosts_[live_[c].host].trip;
        f.connect_time = hosts_[live_[c].host].connect;
        core().opened(c, f);
      });
    }
  }
  void act(HandJob& a) {
    Live& l = live_.at(a.connection);
    const Host& h = hosts_[l.host];
    l.in_hand.push_back(a);
    l.since.push_back(now_);
    if (!h.automatic) {
      pending_.emplace_back(a);
      return;
    }
    serve(a.connection);
  }
  void serve(ConnectionNumber c) {
    Live& l = live_.at(c);
    if (l.replying || l.in_hand.empty()) return;
    l.replying = true;
    const Host& served = hosts_[l.host];
    const auto arrives = std::max(now_, l.since.front() + served.trip) - now_;
    at(std::chrono::ceil<milliseconds>(arrives) + served.reply, [this, c] {
      auto it = live_.find(c);
      if (it == live_.end()) return;
      it->second.replying = false;
      const Host& host = hosts_[it->second.host];
      ++hosts_[it->second.host].served;
      finish(c, host.trip.count() == 0 ? host.reply
                                       : std::chrono::duration_cast<microseconds>(now_ - it->second.since.front()));
      collect();
      if (!live_.contains(c)) return;  // closed by us
      if (host.closes_after != 0 && ++live_[c].served >= host.closes_after) {
        std::vector<JobNumber> rest;
        for (auto& j : live_[c].in_hand) rest.push_back(j.job);
        live_.erase(c);
        core().closed(c, true, ipc::delivery::Trouble::peer_421, {mail::Action::deferred, "4.4.2", "closed", {}, {}},
                      rest);
        release(c);
        return;
      }
      serve(c);
    });
  }
  void release(ConnectionNumber c) {
    const auto at = leased_.find(c);
    if (at == leased_.end()) return;
    const std::uint32_t number = at->second;
    leased_.erase(at);
    leave(number, 1);
  }
  void leave(std::uint32_t number, std::size_t count) {
    SessionLimit& limit = session_limits_.at(number);
    BOOST_REQUIRE(limit.count >= count);
    limit.count -= count;
    if (limit.count < limit.most && std::exchange(limit.refused, false)) core().session_room(number);
  }
  void act(CloseConnection& a) {
    release(a.connection);
    if (!hosts_[live_[a.connection].host].automatic) pending_.emplace_back(a);
  }
  void act(DeferRecipients& a) {
    Message& m = message(a.message);
    m.deferred += a.ordinals.size();
    end_if_done(m);
    const auto automatic = [](const auto& h) { return h.second.automatic; };
    if (std::any_of(hosts_.begin(), hosts_.end(), automatic)) return;
    pending_.emplace_back(a);
  }
  void finish(ConnectionNumber c, microseconds service) {
    Live& l = live_.at(c);
    BOOST_REQUIRE_MESSAGE(!l.in_hand.empty(), where_ << "no job in hand");
    const HandJob j = l.in_hand.front();
    l.in_hand.pop_front();
    l.since.pop_front();
    Message& m = message(j.message);
    m.delivered += j.ordinals.size();
    end_if_done(m);
    core().job_done(j.job, service, JobEnd::served);
  }
  /// count: of its recipients; 0: all.
  void put_off(ConnectionNumber c, std::size_t count, JobEnd end) {
    Live& l = live_.at(c);
    BOOST_REQUIRE_MESSAGE(!l.in_hand.empty(), where_ << "no job in hand");
    const HandJob j = l.in_hand.front();
    l.in_hand.pop_front();
    if (count == 0) count = j.ordinals.size();
    const Ordinals back(j.ordinals.begin(), j.ordinals.begin() + static_cast<std::ptrdiff_t>(count));
    message(j.message).delivered += j.ordinals.size() - count;
    core().try_next_host(j.job, back, {mail::Action::deferred, "4.3.0", l.host + " says not now", {}, {}});
    core().job_done(j.job, milliseconds(1), count < j.ordinals.size() ? JobEnd::served : end);
  }
  void end_if_done(Message& m) {
    if (m.delivered + m.deferred == m.recipients.size()) m.ended = now_;
  }
  void at(milliseconds later, std::function<void()> f) {
    timed_.push_back({now_ + later, ++order_, std::move(f)});
    std::push_heap(timed_.begin(), timed_.end(), std::greater<>());
  }

  void advance(milliseconds by) {
    const SteadyTime until = now_ + by;
    for (;;) {
      collect();
      SteadyTime next = core().next_wake();
      if (!timed_.empty()) next = std::min(next, timed_.front().at);
      if (next > until) break;
      now_ = std::max(now_, next);
      core().set_time(now_, wall());
      if (!timed_.empty() && timed_.front().at <= now_) {
        std::pop_heap(timed_.begin(), timed_.end(), std::greater<>());
        auto f = std::move(timed_.back().act);
        timed_.pop_back();
        f();
      } else {
        core().tick();
      }
    }
    now_ = until;
    core().set_time(now_, wall());
    core().tick();
    collect();
  }

  static std::set<std::string> alternatives(const std::string& text) {
    std::set<std::string> out;
    std::istringstream in(text);
    for (std::string part; std::getline(in, part, '|');) out.insert(part);
    return out;
  }
  template <class T, class F>
  void take(F&& fits) {
    for (auto it = pending_.begin(); it != pending_.end(); ++it) {
      if (auto* a = std::get_if<T>(&*it); a != nullptr && fits(*a)) {
        pending_.erase(it);
        return;
      }
    }
    BOOST_ERROR(where_ << "did not happen; pending: " << shown());
  }
  std::string shown() {
    std::string out;
    for (auto& a : pending_) {
      if (auto* o = std::get_if<OpenConnection>(&a)) out += "[open " + o->destination.host + "]";
      if (auto* h = std::get_if<HandJob>(&a))
        out += "[hand #" + std::to_string(h->connection) + " " + by_number_[h->message] + " " +
               std::to_string(h->ordinals.size()) + "]";
      if (auto* c = std::get_if<CloseConnection>(&a)) out += "[close #" + std::to_string(c->connection) + "]";
      if (auto* d = std::get_if<DeferRecipients>(&a))
        out +=
            "[defer " + by_number_[d->message] + " " + std::to_string(d->ordinals.size()) + " " + d->status.text + "]";
      if (auto* r = std::get_if<RouteRecipient>(&a))
        out += "[route " + by_number_[r->message] + " " + std::to_string(r->ordinal) + "]";
    }
    for (auto& [n, c] : names_) out += " " + n + "=#" + std::to_string(c);
    return out;
  }

  static std::string says(const std::vector<std::string>& w, std::size_t from, const std::string& otherwise = {}) {
    std::string out;
    for (std::size_t i = from; i < w.size(); ++i) out += (i > from ? " " : "") + w[i];
    return out.empty() ? otherwise : out;
  }
  static ipc::delivery::Trouble trouble(const std::vector<std::string>& w, std::size_t at,
                                        ipc::delivery::Trouble otherwise) {
    using ipc::delivery::Trouble;
    static const std::map<std::string, Trouble> kTroubles = {
        {"refused", Trouble::refused},  {"timed_out", Trouble::timed_out}, {"unreachable", Trouble::unreachable},
        {"4xx", Trouble::greeting_4xx}, {"5xx", Trouble::greeting_5xx},    {"421", Trouble::peer_421},
        {"tls", Trouble::tls},          {"local", Trouble::local}};
    return w.size() > at ? kTroubles.at(w[at]) : otherwise;
  }

  void step(const std::vector<std::string>& w) {
    const std::string& verb = w[0];
    if (verb == "set") {
      const auto n = [&] { return static_cast<std::uint32_t>(std::stoul(w.at(2))); };
      if (w[1] == "workers")
        limits_.workers = n();
      else if (w[1] == "concurrency")
        limits_.destination_concurrency = n();
      else if (w[1] == "recipients")
        limits_.destination_recipients = n();
      else if (w[1] == "threshold")
        options_.backlog_threshold = n();
      else if (w[1] == "max_message")
        options_.fairness.max_message_concurrency = n();
      else if (w[1] == "scale")
        options_.fairness.scale_max_concurrency = n();
      else if (w[1] == "routers")
        options_.routing_workers = n();
      else if (w[1] == "rides")
        options_.ride_limit = n();
      else if (w[1] == "idle_age")
        limits_.idle_age = duration(w.at(2));
      else if (w[1] == "max_age")
        limits_.max_age = duration(w.at(2));
      else if (w[1] == "valid")
        valid_ = std::chrono::duration_cast<seconds>(duration(w.at(2)));
      else if (w[1] == "backlog_time")
        options_.backlog_time = duration(w.at(2));
      else if (w[1] == "rate_delay")
        limits_.rate_delay = duration(w.at(2));
      else if (w[1] == "sessions")
        limits_.sessions = n();
      else if (w[1] == "combine")
        limits_.combine_domains = w.at(2) == "yes";
      else if (w[1] == "initial")
        limits_.initial_concurrency = n();
      else if (w[1] == "tls")
        tls_ = w.at(2) == "may"       ? ipc::TlsLevel::may
               : w.at(2) == "encrypt" ? ipc::TlsLevel::encrypt
                                      : ipc::TlsLevel::none;
      else if (w[1] == "deferred")
        limits_.deferred = w.at(2) == "yes";
      else if (w[1] == "seed")
        seed_ = n();
      else
        BOOST_FAIL(where_ << "unknown setting");
    } else if (verb == "known") {
      destdb::Facts f;
      const auto d = duration(w.at(3));
      if (w[2] == "closed") {
        f.last_close = wall() - d;
      } else {
        f.failures = 1;
        f.reason = "said no before";
        f.next_retry = w[2] == "retry" ? wall() + d : wall() - d;
      }
      table_.put(destination(w[1]).key(), f);
    } else if (verb == "route") {
      auto& levels = routes_[w.at(1)];
      levels.assign(1, {});
      for (std::size_t i = 3; i < w.size(); ++i) {
        if (w[i] == "|")
          levels.emplace_back();
        else
          levels.back().push_back(w[i]);
      }
    } else if (verb == "host") {
      Host& h = hosts_[w.at(1)];
      h.automatic = true;
      h.refuses = false;
      for (std::size_t i = 2; i < w.size(); ++i) {
        if (w[i] == "connect")
          h.connect = duration(w.at(++i));
        else if (w[i] == "trip")
          h.trip = duration(w.at(++i));
        else if (w[i] == "reply")
          h.reply = duration(w.at(++i));
        else if (w[i] == "window")
          h.window = static_cast<std::uint32_t>(std::stoul(w.at(++i)));
        else if (w[i] == "closes_after")
          h.closes_after = static_cast<std::uint32_t>(std::stoul(w.at(++i)));
        else if (w[i] == "refuses")
          h.refuses = true;
        else
          BOOST_FAIL(where_ << "unknown word");
      }
    } else if (verb == "routing") {
      manual_ = w.at(1) == "manual";
    } else if (verb == "arrive") {
      Message& m = messages_[w.at(1)];
      m.number = messages_.size();
      by_number_[m.number] = w[1];
      m.arrived = now_;
      for (std::size_t i = 2; i < w.size(); ++i) {
        const auto star = w[i].find('*');
        std::size_t n = 1;
        std::string domain = w[i].substr(0, star);
        if (star != std::string::npos) n = std::stoul(w[i].substr(star + 1));
        const auto each = domain.find('%');  // d%: d0, d1, …
        for (std::size_t k = 0; k < n; ++k) {
          m.recipients.push_back(each == std::string::npos
                                     ? domain
                                     : domain.substr(0, each) + std::to_string(k) + domain.substr(each + 1));
        }
      }
      Ordinals all;
      for (std::uint32_t i = 0; i < m.recipients.size(); ++i) all.push_back(i);
      core().admit(m.number, all);
    } else if (verb == "routed") {
      const auto ordinal = static_cast<std::uint32_t>(std::stoul(w.at(2)));
      core().routed(message(w[1]).number, ordinal, resolved(w.at(3), ordinal));
    } else if (verb == "unroutable") {
      ++message(w.at(1)).deferred;
      core().unroutable(message(w[1]).number, static_cast<std::uint32_t>(std::stoul(w.at(2))));
    } else if (verb == "route_lost") {
      core().route_lost(message(w.at(1)).number, static_cast<std::uint32_t>(std::stoul(w.at(2))), w.size() > 3);
    } else if (verb == "opened") {
      ipc::delivery::Features f;
      f.window = w.size() > 2 ? static_cast<std::uint32_t>(std::stoul(w[2])) : 1;
      core().opened(connection(w.at(1)), f);
    } else if (verb == "refused") {
      const auto c = connection(w.at(1));
      live_.erase(c);
      core().closed(c, false, trouble(w, 2, ipc::delivery::Trouble::refused),
                    {mail::Action::deferred, "4.4.1", says(w, 3, "connection refused"), {}, {}}, {});
      release(c);
    } else if (verb == "lost" || verb == "died") {
      const auto c = connection(w.at(1));
      std::vector<JobNumber> rest;
      if (w.size() < 3 || w[2] == "all") {
        for (auto& j : live_[c].in_hand) rest.push_back(j.job);
      }
      live_.erase(c);
      const auto why = verb == "lost" ? ipc::delivery::Trouble::lost : ipc::delivery::Trouble::none;
      core().closed(c, true, trouble(w, 3, why),
                    {mail::Action::deferred, "4.4.2", says(w, 4, "lost connection"), {}, {}}, rest);
      release(c);
    } else if (verb == "done") {
      finish(connection(w.at(1)), w.size() > 2 ? duration(w[2]) : milliseconds(1));
    } else if (verb == "put_off") {
      const auto c = connection(w.at(1));
      put_off(c, w.size() > 2 ? std::stoul(w[2]) : 0, JobEnd::put_off);
    } else if (verb == "one_domain") {
      const auto c = connection(w.at(1));
      const HandJob j = live_.at(c).in_hand.front();
      live_.at(c).in_hand.pop_front();
      const std::size_t count = std::stoul(w.at(2));
      message(j.message).delivered += j.ordinals.size() - count;
      core().one_domain_only(j.job, {j.ordinals.end() - static_cast<std::ptrdiff_t>(count), j.ordinals.end()},
                             {mail::Action::deferred, "4.3.0", "multiple domains", {}, {}});
      core().job_done(j.job, milliseconds(1), JobEnd::served);
    } else if (verb == "cut") {
      const auto c = connection(w.at(1));
      put_off(c, 0, JobEnd::cut_short);
      std::vector<JobNumber> rest;
      for (auto& j : live_[c].in_hand) rest.push_back(j.job);
      live_.erase(c);
      core().closed(c, true, trouble(w, 2, ipc::delivery::Trouble::lost),
                    {mail::Action::deferred, "4.4.2", "lost connection", {}, {}}, rest);
      release(c);
    } else if (verb == "replaced") {
      const auto c = connection(w.at(1));
      live_.erase(c);
      core().closed(c, false, ipc::delivery::Trouble::replaced,
                    {mail::Action::deferred, "4.3.0", "program is being replaced", {}, {}}, {});
    } else if (verb == "last") {  // nothing is carried out between the two
      const auto c = connection(w.at(1));
      finish(c, milliseconds(1));
      std::vector<JobNumber> rest;
      for (auto& j : live_[c].in_hand) rest.push_back(j.job);
      live_.erase(c);
      core().closed(c, true, ipc::delivery::Trouble::peer_421,
                    {mail::Action::deferred, "4.7.0", "enough messages", {}, {}}, rest);
      release(c);
    } else if (verb == "down" || verb == "up") {
      core().transport_up("smtp", verb == "up");
    } else if (verb == "isolate") {
      core().isolate(live_.at(connection(w.at(1))).in_hand.front().job);
    } else if (verb == "withdraw") {
      BOOST_TEST(core().withdraw(message(w.at(1)).number).size() == std::stoul(w.at(2)));
    } else if (verb == "session_class") {
      const auto number = static_cast<std::uint32_t>(std::stoul(w.at(1)));
      session_limits_[number].most = std::stoul(w.at(2));
      for (std::size_t i = 3; i < w.size(); ++i) class_of_[w[i]] = number;
    } else if (verb == "seize") {
      session_limits_.at(static_cast<std::uint32_t>(std::stoul(w.at(1)))).count += std::stoul(w.at(2));
    } else if (verb == "leave") {
      leave(static_cast<std::uint32_t>(std::stoul(w.at(1))), std::stoul(w.at(2)));
    } else if (verb == "yield") {
      BOOST_TEST(core().yield_session(static_cast<std::uint32_t>(std::stoul(w.at(1)))) == (w.at(2) == "yes"));
    } else if (verb == "suspend") {
      table_.suspend({w.at(1), says(w, 2), wall()});
      core().suspensions_changed();
    } else if (verb == "resume") {
      BOOST_TEST(table_.resume(w.at(1)));
      core().suspensions_changed();
    } else if (verb == "forget") {
      core().forgotten(destination(w.at(1)).key());
    } else if (verb == "out_of_step") {
      core().out_of_step(connection(w.at(1)));
    } else if (verb == "denied") {
      core().refused(connection(w.at(1)));
    } else if (verb == "elsewhere") {
      core().elsewhere(destination(w.at(1)).key(), static_cast<std::uint32_t>(std::stoul(w.at(2))));
    } else if (verb == "look_again") {
      core().look_again(destination(w.at(1)).key());
    } else if (verb == "give_back") {
      core().give_back(destination(w.at(1)).key(), static_cast<std::uint32_t>(std::stoul(w.at(2))));
    } else if (verb == "learned") {
      destdb::Facts f;
      f.last_connect = f.used = wall();
      if (w.at(2) == "retry") {
        f.failures = 1;
        f.reason = "said no to others";
        f.next_retry = wall() + duration(w.at(3));
      }
      core().learned(destination(w.at(1)).key(), f);
    } else if (verb == "rule") {
      rule_ = std::set<std::string, std::less<>>(w.begin() + 1, w.end());
      if (rule_.empty()) rule_.insert("nobody");
    } else if (verb == "suspect") {
      core().isolate_message(message(w.at(1)).number);
    } else if (verb == "flushed") {
      core().override_deferral(message(w.at(1)).number);
    } else if (verb == "flush") {
      core().forgive();
    } else if (verb == "advance") {
      advance(duration(w.at(1)));
    } else if (verb == "expect") {
      collect();
      expect(w);
    } else {
      BOOST_FAIL(where_ << "unknown verb " << verb);
    }
    // Every setting counts, not only the first: the scheduler is made by the first event.
    if (core_) collect();
  }

  void expect(const std::vector<std::string>& w) {
    const std::string& what = w.at(1);
    const auto count = [&](std::size_t at) { return w.size() > at ? std::stoul(w[at]) : 0; };
    if (what == "nothing") {
      BOOST_CHECK_MESSAGE(pending_.empty(), where_ << "more happened: " << shown());
      pending_.clear();
    } else if (what == "route") {
      const auto n = message(w.at(2)).number;
      for (std::size_t i = 0; i < std::max<std::size_t>(1, count(3)); ++i) {
        take<RouteRecipient>([&](auto& a) { return a.message == n; });
      }
    } else if (what == "open" || what == "step_by_step" || what == "clear_text") {
      const auto hosts = alternatives(w.at(3));
      take<OpenConnection>([&](auto& a) {
        if (!hosts.contains(a.destination.host)) return false;
        if (a.step_by_step != (what == "step_by_step")) return false;
        if (a.clear_text != (what == "clear_text")) return false;
        names_[w[2]] = a.connection;
        return true;
      });
    } else if (what == "hand") {
      const auto c = connection(w.at(2));
      const auto m = w.at(3) == "ANY" ? 0 : message(w[3]).number;
      const auto n = count(4);
      take<HandJob>([&](auto& a) {
        return a.connection == c && (m == 0 || a.message == m) && (n == 0 || a.ordinals.size() == n);
      });
    } else if (what == "close") {
      const auto c = connection(w.at(2));
      take<CloseConnection>([&](auto& a) { return a.connection == c; });
    } else if (what == "defer") {
      const auto m = message(w.at(2)).number;
      const auto n = count(3);
      const std::string words = says(w, 4);
      take<DeferRecipients>([&](auto& a) {
        return a.message == m && (n == 0 || a.ordinals.size() == n) && a.status.text.find(words) != std::string::npos;
      });
    } else if (what == "explain") {
      static constexpr const char* kRules[] = {"room",   "idle", "unused", "closed", "retry",
                                               "fewest", "ride", "wait",   "nothing"};
      const auto e = core().explain(resolved(w.at(2), 0));
      BOOST_TEST(kRules[static_cast<int>(e.choice)] == w.at(3));
      std::set<std::string> chosen, wanted;
      for (std::size_t i = 4; i < w.size(); ++i) wanted.insert(destination(w[i]).key());
      chosen.insert(e.chosen.begin(), e.chosen.end());
      BOOST_CHECK_MESSAGE(chosen == wanted, where_ << "other hosts would be chosen");
      if (e.choice == Choice::nothing) BOOST_TEST(e.level == e.levels.size());
    } else if (what == "state") {
      static constexpr const char* kStates[] = {"active", "idle", "closed", "unused", "retry", "failing", "suspended"};
      std::string state = "none";
      core().each_destination([&](const DestinationState& d) {
        if (d.address.host == w.at(2)) state = kStates[static_cast<int>(d.classification)];
      });
      BOOST_TEST(state == w.at(3));
    } else if (what == "finished") {
      const Message& m = message(w.at(2));
      BOOST_REQUIRE_MESSAGE(m.ended != kNever, where_ << "not finished: " << m.delivered << " delivered");
      const auto took = std::chrono::duration_cast<milliseconds>(m.ended - m.arrived);
      BOOST_CHECK_MESSAGE(took <= duration(w.at(4)), where_ << "took " << took.count() << " ms");
    } else if (what == "served") {  // HOST at_most|at_least N
      const auto served = hosts_[w.at(2)].served;
      BOOST_CHECK_MESSAGE(w.at(3) == "at_most" ? served <= count(4) : served >= count(4),
                          where_ << "served " << served);
    } else if (what == "retry") {  // HOST between A and B: when it may be tried again
      const auto facts = table_.find(destination(w.at(2)).key());
      BOOST_REQUIRE(facts.has_value());
      const auto in = std::chrono::duration_cast<milliseconds>(facts->next_retry - wall());
      BOOST_CHECK_MESSAGE(in >= duration(w.at(4)) && in <= duration(w.at(6)), where_ << "in " << in.count() << " ms");
    } else if (what == "in_hand") {
      BOOST_TEST(core().figures().in_hand == count(2));
    } else if (what == "connections") {
      BOOST_TEST(core().figures().connections_opened == count(2));
    } else if (what == "delivered") {
      BOOST_TEST(message(w.at(2)).delivered == count(3));
    } else {
      BOOST_FAIL(where_ << "unknown expectation");
    }
  }

  Options options_;
  ipc::TlsLevel tls_ = ipc::TlsLevel::none;
  TransportLimits limits_;
  std::uint64_t seed_ = 1;
  seconds valid_{3600};
  destdb::MemoryTable table_;
  std::optional<Random> random_;
  std::optional<Scheduler> core_;
  SteadyTime now_{seconds(1000)};
  bool manual_ = false;
  std::map<std::string, std::vector<std::vector<std::string>>> routes_;
  std::map<std::string, Host> hosts_;
  std::map<std::string, Message> messages_;
  std::map<MessageNumber, std::string> by_number_;
  std::map<std::string, ConnectionNumber> names_;
  std::map<ConnectionNumber, Live> live_;
  std::deque<Action> pending_;
  std::vector<Timed> timed_;
  std::uint64_t order_ = 0;
  std::set<std::string, std::less<>> rule_;
  struct SessionLimit {
    std::size_t most = 0, count = 0;
    bool refused = false;
  };
  std::map<std::uint32_t, SessionLimit> session_limits_;
  std::map<std::string, std::uint32_t, std::less<>> class_of_;
  std::map<ConnectionNumber, std::uint32_t> leased_;
  std::string where_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(every_scenario_runs_as_written) {
  std::vector<std::filesystem::path> files;
  for (const auto& f : std::filesystem::directory_iterator("tests/scenario")) {
    if (f.path().extension() == ".scn") files.push_back(f.path());
  }
  std::sort(files.begin(), files.end());
  BOOST_TEST_REQUIRE(files.size() >= 12U);
  for (const auto& f : files) {
    BOOST_TEST_MESSAGE(f.filename().string());
    World().run(f);
  }
}

}  // namespace pen::qmgr
