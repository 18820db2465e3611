#include "qmgr/testing/scenario_verbs.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>

namespace pen::qmgr::scenario {

namespace {

using ipc::delivery::Trouble;

Trouble trouble(const Arguments& a, std::size_t n, Trouble otherwise) {
  static const std::map<std::string, Trouble> kTroubles = {
      {"refused", Trouble::refused},  {"timed_out", Trouble::timed_out}, {"unreachable", Trouble::unreachable},
      {"4xx", Trouble::greeting_4xx}, {"5xx", Trouble::greeting_5xx},    {"421", Trouble::peer_421},
      {"tls", Trouble::tls},          {"local", Trouble::local}};
  if (a.size() <= n) return otherwise;
  const auto found = kTroubles.find(a.at(n));
  BOOST_REQUIRE_MESSAGE(found != kTroubles.end(), "no such trouble: " << a.at(n));
  return found->second;
}

std::string key(World& world, const Arguments& a) { return world.destination(a.at(0)).key(); }

/// HOST closed AGO | retry IN | failed_retry AGO
void known(World& world, const Arguments& a) {
  destdb::Facts f;
  const auto d = a.duration(2);
  if (a.at(1) == "closed") {
    f.last_close = world.wall() - d;
  } else {
    f.failures = 1;
    f.reason = "said no before";
    f.next_retry = a.at(1) == "retry" ? world.wall() + d : world.wall() - d;
  }
  world.table.put(key(world, a), f);
}

void learned(World& world, const Arguments& a) {
  destdb::Facts f;
  f.last_connect = f.used = world.wall();
  if (a.at(1) == "retry") {
    f.failures = 1;
    f.reason = "said no to others";
    f.next_retry = world.wall() + a.duration(2);
  }
  world.core().learned(key(world, a), f);
}

void route(World& world, const Arguments& a) {
  auto& levels = world.routes[a.at(0)];
  levels.assign(1, {});
  for (const std::string& word : a.list(2)) {
    if (word == "|")
      levels.emplace_back();
    else
      levels.back().push_back(word);
  }
}

void host(World& world, const Arguments& a) {
  Host& h = world.hosts[a.at(0)];
  h.automatic = true;
  h.refuses = false;
  for (std::size_t i = 1; i < a.size(); ++i) {
    const std::string& word = a.at(i);
    if (word == "connect")
      h.connect = a.duration(++i);
    else if (word == "trip")
      h.trip = a.duration(++i);
    else if (word == "reply")
      h.reply = a.duration(++i);
    else if (word == "window")
      h.window = a.number(++i);
    else if (word == "closes_after")
      h.closes_after = a.number(++i);
    else if (word == "refuses")
      h.refuses = true;
    else
      BOOST_FAIL("a host has no " << word);
  }
}

void arrive(World& world, const Arguments& a) {
  std::vector<std::string> recipients;
  for (const std::string& word : a.list(1)) {
    const auto star = word.find('*');
    const std::string domain = word.substr(0, star);
    const std::size_t n = star == std::string::npos ? 1 : std::stoul(word.substr(star + 1));
    const auto each = domain.find('%');
    for (std::size_t k = 0; k < n; ++k) {
      recipients.push_back(
          each == std::string::npos ? domain : domain.substr(0, each) + std::to_string(k) + domain.substr(each + 1));
    }
  }
  world.arrive(a.at(0), recipients);
}

void ended(World& world, const Arguments& a, Trouble otherwise) {
  world.close(world.connection(a.at(0)), true, trouble(a, 2, otherwise), "4.4.2", a.rest(3, "lost connection"),
              a.size() < 2 || a.at(1) == "all");
}

constexpr Verb kSettings[] = {
    {"workers", "N", "connections of the transport at once",
     [](World& w, const Arguments& a) { w.limits.workers = a.number(0); }},
    {"concurrency", "N", "connections to a destination at once",
     [](World& w, const Arguments& a) { w.limits.destination_concurrency = a.number(0); }},
    {"recipients", "N", "recipients of a job at most; 1: the recipient is the destination",
     [](World& w, const Arguments& a) { w.limits.destination_recipients = a.number(0); }},
    {"initial", "N", "connections to a destination that is new, or back",
     [](World& w, const Arguments& a) { w.limits.initial_concurrency = a.number(0); }},
    {"sessions", "N", "hosts that a job may be handed to in one round",
     [](World& w, const Arguments& a) { w.limits.sessions = a.number(0); }},
    {"combine", "yes|no", "whether domains with the same hosts share a job",
     [](World& w, const Arguments& a) { w.limits.combine_domains = a.at(0) == "yes"; }},
    {"deferred", "yes|no", "whether the transport is in defer_transports",
     [](World& w, const Arguments& a) { w.limits.deferred = a.at(0) == "yes"; }},
    {"idle_age", "D", "an idle connection is closed after this",
     [](World& w, const Arguments& a) { w.limits.idle_age = a.duration(0); }},
    {"max_age", "D", "a connection takes no new jobs after this",
     [](World& w, const Arguments& a) { w.limits.max_age = a.duration(0); }},
    {"rate_delay", "D", "from the end of a delivery to the begin of the next",
     [](World& w, const Arguments& a) { w.limits.rate_delay = a.duration(0); }},
    {"transport_rate_delay", "D", "from the begin of a delivery to the begin of the next, wherever they go; one worker",
     [](World& w, const Arguments& a) {
       w.limits.transport_rate_delay = a.duration(0);
       w.limits.workers = 1;
     }},
    {"rate_limit", "RATES", "destination_rate_limit: 20/s, or several with commas, 20/s,5000/h",
     [](World& w, const Arguments& a) {
       const auto rates = parse_rates(a.at(0));
       if (!rates) throw std::invalid_argument(a.at(0) + " " + rates.error());
       w.limits.rate_limit = *rates;
       w.options.shaping = std::make_shared<const ShapingOptions>();
     }},
    {"threshold", "N", "connection_backlog_threshold",
     [](World& w, const Arguments& a) { w.options.backlog_threshold = a.number(0); }},
    {"least_gain", "D", "connection_least_gain",
     [](World& w, const Arguments& a) { w.options.least_gain = a.duration(0); }},
    {"backlog_time", "D", "a backlog that is expected to last longer is too long",
     [](World& w, const Arguments& a) { w.options.backlog_time = a.duration(0); }},
    {"rides", "N", "thresholds that free rides fill a connection to",
     [](World& w, const Arguments& a) { w.options.ride_limit = a.number(0); }},
    {"max_message", "N", "max_message_concurrency",
     [](World& w, const Arguments& a) { w.options.fairness.max_message_concurrency = a.number(0); }},
    {"scale", "N", "scale_max_concurrency",
     [](World& w, const Arguments& a) { w.options.fairness.scale_max_concurrency = a.number(0); }},
    {"tenants", "yes|no", "whether there are tenants",
     [](World& w, const Arguments& a) { w.options.tenants = a.at(0) == "yes"; }},
    {"urgency_ratio", "N", "how many times as much more urgent mail gets",
     [](World& w, const Arguments& a) { w.options.urgency_ratio = a.number(0); }},
    {"routers", "N", "look-ups under way at once",
     [](World& w, const Arguments& a) { w.options.routing_workers = a.number(0); }},
    {"valid", "D", "how long a look-up's answer is valid",
     [](World& w, const Arguments& a) { w.valid = std::chrono::duration_cast<seconds>(a.duration(0)); }},
    {"tls", "none|may|encrypt", "the TLS level of all hosts",
     [](World& w, const Arguments& a) {
       w.tls = a.at(0) == "may"       ? ipc::TlsLevel::may
               : a.at(0) == "encrypt" ? ipc::TlsLevel::encrypt
                                      : ipc::TlsLevel::none;
     }},
    {"seed", "N", "of what the scheduler draws", [](World& w, const Arguments& a) { w.seed = a.number(0); }},
};

constexpr Verb kVerbs[] = {
    {"set", "NAME VALUE", "a limit or option, before the first event; the names are below",
     [](World& w, const Arguments& a) { row_named(settings(), a.at(0), "setting").perform(w, a.behind_first()); }},
    {"known", "HOST closed AGO | retry IN | failed_retry AGO", "what destdb remembers", known},
    {"route", "DOMAIN = HOST … | HOST …", "preference levels; without it: mx.DOMAIN", route},
    {"host", "HOST [connect D] [trip D] [reply D] [window N] [closes_after N] [refuses]",
     "answers by itself; trip: the path there and back; reply: what a job takes it, one after another", host},
    {"session_class", "N LIMIT HOST …", "these hosts are a class of so many connections at once, leased by the world",
     [](World& w, const Arguments& a) { w.add_to_class(a.number(0), a.number(1), a.list(2)); }},
    {"routing", "manual|auto", "auto (at the start): every look-up is answered at once",
     [](World& w, const Arguments& a) { w.manual_routing = a.at(0) == "manual"; }},
    {"advance", "D", "time passes; hosts answer, ages end",
     [](World& w, const Arguments& a) { w.advance(a.duration(0)); }},

    {"tenant", "NAME", "whose the messages are that arrive from now on",
     [](World& w, const Arguments& a) { w.tenant = a.at(0); }},
    {"urgency", "bulk|normal|urgent", "how urgent the messages are that arrive from now on",
     [](World& w, const Arguments& a) {
       w.urgency = a.at(0) == "bulk" ? Urgency::bulk : a.at(0) == "urgent" ? Urgency::urgent : Urgency::normal;
     }},
    {"weigh", "NAME N", "the weight of a tenant that is here becomes known",
     [](World& w, const Arguments& a) { w.core().tenant_weight(a.at(0), a.number(1)); }},
    {"arrive", "MSG DOMAIN[*N] …", "a message, with N recipients in each; d%*3: d0, d1, d2", arrive},
    {"arrive_each", "MSG DOMAIN COUNT D",
     "so many messages of one recipient from now on, one each D (0ms: at once): MSG0 …",
     [](World& w, const Arguments& a) { w.arrive_each(a.at(0), a.at(1), a.number(2), a.duration(3)); }},
    {"withdraw", "MSG COUNT", "is taken back, and so many recipients at once",
     [](World& w, const Arguments& a) {
       BOOST_TEST(w.core().withdraw(w.message(a.at(0)).number).size() == a.number(1));
     }},
    {"flushed", "MSG", "defer_transports does not hold it",
     [](World& w, const Arguments& a) { w.core().override_deferral(w.message(a.at(0)).number); }},
    {"suspect", "MSG", "every job of it runs alone",
     [](World& w, const Arguments& a) { w.core().isolate_message(w.message(a.at(0)).number); }},
    {"routed", "MSG ORDINAL DOMAIN", "a look-up's answer",
     [](World& w, const Arguments& a) {
       w.core().routed(w.message(a.at(0)).number, a.number(1), w.resolved(a.at(2), a.number(1)));
     }},
    {"unroutable", "MSG ORDINAL", "the same: there is no route",
     [](World& w, const Arguments& a) {
       ++w.message(a.at(0)).deferred;
       w.core().unroutable(w.message(a.at(0)).number, a.number(1));
     }},
    {"route_lost", "MSG ORDINAL [alone]", "a look-up was lost with its program",
     [](World& w, const Arguments& a) { w.core().route_lost(w.message(a.at(0)).number, a.number(1), a.size() > 2); }},

    {"opened", "CONN [N]", "it is open, with a window of N (1)",
     [](World& w, const Arguments& a) {
       ipc::delivery::Features f;
       f.window = a.number_or(1, 1);
       f.pipelining = f.chunking = f.window > 1;
       w.core().opened(w.connection(a.at(0)), f);
     }},
    {"refused", "CONN [TROUBLE [WORDS]]",
     "it could not be opened; trouble: refused timed_out unreachable 4xx 5xx 421 tls local; what the host says",
     [](World& w, const Arguments& a) {
       w.close(w.connection(a.at(0)), false, trouble(a, 1, Trouble::refused), "4.4.1", a.rest(2, "connection refused"),
               false);
     }},
    {"lost", "CONN [all|none [TROUBLE [WORDS]]]", "it ended; whether its jobs were unstarted (all)",
     [](World& w, const Arguments& a) { ended(w, a, Trouble::lost); }},
    {"died", "CONN [all|none]", "the same, by its program's end and not the peer's doing",
     [](World& w, const Arguments& a) { ended(w, a, Trouble::none); }},
    {"replaced", "CONN", "its program ended before it opened",
     [](World& w, const Arguments& a) {
       w.close(w.connection(a.at(0)), false, Trouble::replaced, "4.3.0", "program is being replaced", false);
     }},
    {"done", "CONN [D]", "the oldest job in hand is delivered, in so long (1ms)",
     [](World& w, const Arguments& a) {
       w.finish(w.connection(a.at(0)), a.size() > 1 ? a.duration(1) : milliseconds(1));
     }},
    {"last", "CONN", "the same, and the peer closes at once",
     [](World& w, const Arguments& a) {
       const auto c = w.connection(a.at(0));
       w.finish(c, milliseconds(1));  // nothing is carried out between the two
       w.close(c, true, Trouble::peer_421, "4.7.0", "enough messages", true);
     }},
    {"put_off", "CONN [COUNT]", "its host takes nothing of the oldest job for now, or not these many recipients",
     [](World& w, const Arguments& a) { w.put_off(w.connection(a.at(0)), a.number_or(1, 0), JobEnd::put_off); }},
    {"one_domain", "CONN COUNT", "the same: these many, the last ones, were of another domain than it takes at once",
     [](World& w, const Arguments& a) { w.one_domain(w.connection(a.at(0)), a.number(1)); }},
    {"rest", "CONN COUNT", "the same: these many, the last ones, are beyond what it takes in a transaction",
     [](World& w, const Arguments& a) { w.rest(w.connection(a.at(0)), a.number(1)); }},
    {"cut", "CONN [TROUBLE]", "the peer hangs up within the oldest job in hand",
     [](World& w, const Arguments& a) {
       const auto c = w.connection(a.at(0));
       w.put_off(c, 0, JobEnd::cut_short);
       w.close(c, true, trouble(a, 1, Trouble::lost), "4.4.2", "lost connection", true);
     }},
    {"isolate", "CONN", "the oldest job in hand was so at several deaths of its program",
     [](World& w, const Arguments& a) { w.core().isolate(w.in_hand(w.connection(a.at(0))).job); }},
    {"out_of_step", "CONN", "its peer broke under pipelining",
     [](World& w, const Arguments& a) { w.core().out_of_step(w.connection(a.at(0))); }},
    {"down", "", "the transport's program cannot be reached",
     [](World& w, const Arguments&) { w.core().transport_up("smtp", false); }},
    {"up", "", "it can again", [](World& w, const Arguments&) { w.core().transport_up("smtp", true); }},

    {"flush", "", "an administrator's flush", [](World& w, const Arguments&) { w.core().forgive(); }},
    {"suspend", "NAME [REASON]", "an administrator's order",
     [](World& w, const Arguments& a) {
       w.table.suspend({a.at(0), a.rest(1), w.wall()});
       w.core().suspensions_changed();
     }},
    {"resume", "NAME", "and its end",
     [](World& w, const Arguments& a) {
       BOOST_TEST(w.table.resume(a.at(0)));
       w.core().suspensions_changed();
     }},
    {"forget", "HOST", "what destdb knows of it is forgotten",
     [](World& w, const Arguments& a) { w.core().forgotten(key(w, a)); }},
    {"rule", "NAME …", "defer_destinations names these from now on",
     [](World& w, const Arguments& a) {
       w.rule.clear();
       for (const std::string& name : a.list(0)) w.rule.insert(name);
       if (w.rule.empty()) w.rule.insert("nobody");
     }},

    {"seize", "CLASS COUNT", "so many other sessions of the class come, whatever the limit",
     [](World& w, const Arguments& a) { w.seize(a.number(0), a.number(1)); }},
    {"leave", "CLASS COUNT", "and go", [](World& w, const Arguments& a) { w.leave(a.number(0), a.number(1)); }},
    {"yield", "CLASS yes|no", "somebody wants a place in the class: whether an idle connection closes",
     [](World& w, const Arguments& a) { BOOST_TEST(w.core().yield_session(a.number(0)) == (a.at(1) == "yes")); }},

    {"denied", "CONN", "other hosts of a cluster have what its destination bears",
     [](World& w, const Arguments& a) { w.core().refused(w.connection(a.at(0))); }},
    {"elsewhere", "HOST N", "they have so many connections to it",
     [](World& w, const Arguments& a) { w.core().elsewhere(key(w, a), a.number(1)); }},
    {"look_again", "HOST", "what was denied may be tried",
     [](World& w, const Arguments& a) { w.core().look_again(key(w, a)); }},
    {"give_back", "HOST KEEP", "they wait for connections to it",
     [](World& w, const Arguments& a) { w.core().give_back(key(w, a), a.number(1)); }},
    {"learned", "HOST works | retry IN", "what they know of it", learned},

    {"expect", "WHAT …", "what is to have happened; see below",
     [](World& w, const Arguments& a) {
       w.collect();
       row_named(expectations(), a.at(0), "expectation").perform(w, a.behind_first());
     }},
};

}  // namespace

std::span<const Verb> settings() { return kSettings; }
std::span<const Verb> verbs() { return kVerbs; }

void perform(World& world, const Statement& s) {
  row_named(verbs(), s.verb, "verb").perform(world, s.arguments);
  // Every setting counts, not only the first: the scheduler is made by the first event.
  if (world.begun()) world.collect();
}

std::string language_page() {
  std::string page =
      "# Scenarios\n\n"
      "Each `.scn` file is a test of the scheduler in virtual time: `ctest -R scenario_NAME`. A statement is a line,\n"
      "`#` begins a comment, durations are `5ms 3s 2m 1h`. MSG and CONN are names that the scenario gives, by "
      "`arrive`\n"
      "and `expect open`. What the queue manager does with them is in [queue/](queue/README.md). This page is made\n"
      "from the tables in `qmgr/testing` (target `scenario_page_update`).\n\n"
      "## Statements\n\n";
  page += page_table(verbs());
  page += "\n## Settings\n\n";
  page += page_table(settings(), "set ");
  page +=
      "\n## Expectations\n\n"
      "An action that is expected is looked for among all that were not yet expected.\n\n";
  page += page_table(expectations(), "expect ");
  return page;
}

}  // namespace pen::qmgr::scenario
