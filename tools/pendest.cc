/// pendest: lists, explains, suspends and forgets destinations. Manual: man/pendest.1.
#include <getopt.h>
#include <sysexits.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "lib/base/text.h"
#include "lib/destdb/name.h"
#include "lib/resolve/from_settings.h"
#include "tools/destination_client.h"
#include "tools/destination_listing.h"
#include "tools/queue_client.h"

namespace {

using namespace pen;
using namespace pen::tools;
using namespace pen::ipc::destinations;

constexpr const char* kProgram = "pendest";
constexpr const char* kHelp =
    "usage: pendest [-c DIR] [-j] COMMAND\n"
    "\n"
    "Looks at the destinations of a Penstock instance, and has mail for them wait.\n"
    "  list                   every destination: state, connections, failures, next try\n"
    "  show DEST              everything known of it\n"
    "  suspend DEST [REASON]  deliver nothing there until it is resumed, also after a restart\n"
    "  resume DEST            deliver again\n"
    "  forget DEST            drop what was learned of it: failures, limits, times\n"
    "  explain USER@DOMAIN [SENDER]\n"
    "                         where mail for this recipient would go now, and why\n"
    "DEST is a host name, an address, either with a port ([192.0.2.1]:25), a domain, or\n"
    ".DOMAIN for all that is below it.\n"
    "  -j, --json  one JSON object a line, for list, show and explain\n"
    "  -c DIR      the directory of main.cf (default: MAIL_CONFIG, else /etc/penstock)\n"
    "  --help, --version\n";

void note(const std::string& text) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s: %s\n", kProgram, text.c_str());
}

struct Tool {
  config::Config config;
  bool json = false;
  DestinationClient qmgr{kProgram, config};
  DestinationFile file{config};

  void print_one(const Seen& d, bool whole) {
    print(json ? json_line(d) : whole ? show_text(d) : list_line(d));
  }
  void print_one(const destdb::Suspension& s, bool whole) {
    print(json ? json_line(s) : whole ? show_text(s) : list_line(s));
  }
};

WallTime now() { return system_clock().wall_now(); }

bool fits(const std::string& name, const destdb::Facts& facts) {
  const auto shown = destdb::parse_shown(facts.shown);
  const auto names = destdb::names_of(shown.host, shown.address, shown.port);
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// list and show: what qmgr has in memory, and the rest from the file. name: only what it fits; empty: all.
int look(Tool& tool, const std::string& name) {
  const bool whole = !name.empty();
  std::map<std::string, Seen> live;
  destdb::Suspensions suspensions;
  Backend backend;
  const bool up =
      tool.qmgr
          .ask(Find{1, name},
               [&](FromQmgr& m) {
                 if (auto* s = std::get_if<Suspended>(&m)) {
                   suspensions.emplace(s->name, destdb::Suspension{s->name, s->reason, s->since});
                 } else if (auto* e = std::get_if<Entry>(&m)) {
                   const std::string key = e->key;
                   live.insert_or_assign(key, from_qmgr(std::move(*e)));
                 } else if (auto* b = std::get_if<Backend>(&m)) {
                   backend = std::move(*b);
                 }
               })
          .has_value();
  std::uint64_t count = 0;
  bool begun = false;
  const auto begin = [&](const destdb::Suspensions& all) {
    begun = true;
    if (backend.name == "redis")
      print(tool.json ? json_line(backend) : "knowledge: " + backend_text(backend) + "\n");
    if (!tool.json && !whole) print(list_header());
    for (const auto& [key, s] : all) {
      if (whole && key != name) continue;
      ++count;
      tool.print_one(s, whole);
    }
  };
  if (up) begin(suspensions);
  const WallTime t = now();
  const auto read = tool.file.each(!up, [&](const std::string& key, const destdb::Facts& facts) {
    if (!begun) begin(tool.file.suspensions());
    if (const auto it = live.find(key); it != live.end()) {
      ++count;
      tool.print_one(it->second, whole);
      live.erase(it);
    } else if (!whole || fits(name, facts)) {
      ++count;
      tool.print_one(from_file(key, facts, up ? suspensions : tool.file.suspensions(), t), whole);
    }
  });
  if (!begun && read) begin(tool.file.suspensions());
  for (const auto& [key, d] : live) {
    ++count;
    tool.print_one(d, whole);
  }
  const bool missing = !read && read.error().is_errno(ENOENT);
  if (!up)
    note("the mail system is not running; this is what it knew when it last wrote (" +
         tool.qmgr.why() + ")");
  if (!read && !missing) {
    note((up ? "only what is in memory is shown, the file cannot be read: "
             : "the file cannot be read: ") +
         read.error().message());
    if (!up)
      return read.error().is_errno(EACCES) || read.error().is_errno(EPERM) ? EX_NOPERM : EX_IOERR;
  }
  if (whole && count == 0) {
    note("nothing is known of " + name + " (a domain's hosts: " + kProgram + " explain user@" +
         name + ")");
    return EX_DATAERR;
  }
  return 0;
}

/// An order while the mail system is down: in the file, from where it is taken up at the next start.
int order_in_file(Tool& tool, const Order& order) {
  std::vector<destdb::Change> changes;
  const auto read = tool.file.each(true, [&](const std::string& key, const destdb::Facts& facts) {
    if (order.verb == Verb::forget && fits(order.name, facts))
      changes.push_back({destdb::Change::Kind::facts, key, {}, {}});
  });
  if (!read) {
    if (read.error().is_errno(ENOENT))
      die(kProgram, EX_UNAVAILABLE,
          "the mail system is not running and has never run here: " + tool.qmgr.why());
    die(kProgram, read.error().is_errno(EACCES) ? EX_NOPERM : EX_IOERR, read.error().message());
  }
  if (order.verb == Verb::suspend)
    changes.push_back({destdb::Change::Kind::suspension,
                       order.name,
                       {},
                       destdb::Suspension{order.name, printable(order.reason), now()}});
  if (order.verb == Verb::resume && tool.file.suspensions().contains(order.name))
    changes.push_back({destdb::Change::Kind::suspension, order.name, {}, {}});
  if (changes.empty()) return EX_DATAERR;
  if (auto written = tool.file.write(changes); !written)
    die(kProgram, written.error().is_errno(EACCES) ? EX_NOPERM : EX_IOERR,
        written.error().message());
  note("the mail system is not running; it goes by this from its next start on");
  return 0;
}

int give(Tool& tool, const Order& order) {
  const auto nothing = [&] {
    die(kProgram, EX_DATAERR,
        order.verb == Verb::resume ? order.name + " is not suspended by hand"
                                   : "nothing is known of " + order.name);
  };
  const auto done = tool.qmgr.ask(order, [](FromQmgr&) {});
  if (!done) {
    const int status = order_in_file(tool, order);
    if (status != 0) nothing();
    return status;
  }
  switch (done->outcome) {
    case Outcome::ok:
      break;
    case Outcome::not_found:
      nothing();
      break;
    case Outcome::denied:
      die(kProgram, EX_NOPERM, done->text);
    case Outcome::failed:
      die(kProgram, EX_SOFTWARE, done->text);
  }
  if (order.verb == Verb::resume)
    note("what waits in the queue is tried at its next time; penqueue -s or -f tries it now");
  return 0;
}

/// Transport and next hop alone, by the configuration: hosts are looked up by trivial-rewrite only.
int explain_without_qmgr(Tool& tool, const std::string& recipient, const std::string& sender) {
  auto resolve = resolve::Resolve::open(resolve::from_settings(tool.config.settings()));
  if (!resolve) die(kProgram, EX_CONFIG, resolve.error().message());
  auto route = (*resolve)->route(sender, recipient);
  if (!route) die(kProgram, EX_TEMPFAIL, route.error().message());
  Explained e;
  e.recipient = route->recipient.empty() ? recipient : route->recipient;
  e.transport = route->transport;
  e.nexthop = route->nexthop;
  e.by_sender = route->by_sender;
  const auto limits = tool.config.transport(route->transport);
  e.concurrency = static_cast<std::uint32_t>(limits.destination_concurrency_limit);
  e.recipients = static_cast<std::uint32_t>(limits.destination_recipient_limit);
  e.rate_delay = limits.destination_rate_delay;
  std::vector<std::string> names = destdb::names_of_nexthop(route->nexthop);
  for (auto& name : destdb::names_of_nexthop(e.recipient.substr(e.recipient.rfind('@') + 1)))
    names.push_back(std::move(name));
  std::vector<Seen> hosts;
  const WallTime t = now();
  const auto read = tool.file.each(true, [&](const std::string& key, const destdb::Facts& facts) {
    if (std::any_of(names.begin(), names.end(),
                    [&](const auto& n) { return !n.starts_with('.') && fits(n, facts); }))
      hosts.push_back(from_file(key, facts, tool.file.suspensions(), t));
  });
  std::string suspended;
  for (const auto& n : names) {
    const auto it = tool.file.suspensions().find(n);
    if (it != tool.file.suspensions().end() && suspended.empty())
      suspended = "delivery to " + n + " is suspended" +
                  (it->second.reason.empty() ? "" : ": " + it->second.reason);
  }
  if (tool.json) {
    e.suspended = suspended;
    print(json_line(e, hosts, {}));
  } else {
    print("recipient    " + printable(e.recipient) + "\ntransport    " + e.transport +
          "\nnext hop     " + printable(e.nexthop) + "\n");
    if (!e.by_sender.empty()) print("by sender    " + e.by_sender + "\n");
    for (const auto& d : hosts) print(show_text(d));
    if (!suspended.empty()) print("decision     deferred: " + printable(suspended) + "\n");
  }
  note("the mail system is not running: its hosts and what would be chosen are not known (" +
       tool.qmgr.why() + ")");
  if (!read && !read.error().is_errno(ENOENT)) note(read.error().message());
  return 0;
}

int explain(Tool& tool, const std::string& recipient, const std::string& sender) {
  Explained explained;
  std::vector<Seen> hosts;
  Backend backend;
  const auto done = tool.qmgr.ask(Explain{1, recipient, sender}, [&](FromQmgr& m) {
    if (auto* e = std::get_if<Explained>(&m)) explained = std::move(*e);
    if (auto* e = std::get_if<Entry>(&m)) hosts.push_back(from_qmgr(std::move(*e)));
    if (auto* b = std::get_if<Backend>(&m)) backend = std::move(*b);
  });
  if (!done) return explain_without_qmgr(tool, recipient, sender);
  if (done->outcome != Outcome::ok) die(kProgram, EX_TEMPFAIL, done->text);
  print(tool.json ? json_line(explained, hosts, backend)
                  : explain_text(explained, hosts, backend, now()));
  return 0;
}

[[noreturn]] void wrong_usage(const std::string& text) {
  die(kProgram, EX_USAGE, text + "; see pendest --help");
}

}  // namespace

int main(int argc, char** argv) {
  static constexpr option kOptions[] = {{"help", no_argument, nullptr, 1},
                                        {"version", no_argument, nullptr, 2},
                                        {"json", no_argument, nullptr, 'j'},
                                        {nullptr, 0, nullptr, 0}};
  std::string directory;
  bool json = false;
  for (int c; (c = ::getopt_long(argc, argv, "c:j", kOptions, nullptr)) != -1;) {
    switch (c) {
      case 1:
        std::printf("%s", kHelp);
        return 0;
      case 2:
        std::printf("pendest (Penstock) %s\n", PEN_VERSION);
        return 0;
      case 'c':
        directory = optarg;
        break;
      case 'j':
        json = true;
        break;
      default:
        std::fprintf(stderr, "%s", kHelp);
        return EX_USAGE;
    }
  }
  std::vector<std::string> words(argv + optind, argv + argc);
  if (words.empty()) {
    std::fprintf(stderr, "%s", kHelp);
    return EX_USAGE;
  }
  const std::string command = words.front();
  words.erase(words.begin());
  static const std::map<std::string, Verb> kOrders = {
      {"suspend", Verb::suspend}, {"resume", Verb::resume}, {"forget", Verb::forget}};
  const auto order = kOrders.find(command);
  const bool known =
      command == "list" || command == "show" || command == "explain" || order != kOrders.end();
  if (!known) wrong_usage("unknown command: " + printable(command));
  std::string name;
  if (command == "list") {
    if (!words.empty()) wrong_usage("list takes no argument");
  } else if (words.empty()) {
    wrong_usage(command + (command == "explain" ? " needs a recipient" : " needs a destination"));
  } else if (words.size() > 1 && command != "suspend" &&
             !(command == "explain" && words.size() == 2)) {
    wrong_usage(command +
                (command == "explain" ? " takes a recipient and a sender" : " takes one argument"));
  } else if (command == "explain") {
    const auto at = words[0].rfind('@');
    if (at == std::string::npos || at == 0 || at + 1 == words[0].size() || words[0].size() > 1000)
      wrong_usage("not an address user@domain: " + printable(words[0]));
    if (words.size() == 2 && words[1].size() > 1000) wrong_usage("no sender is that long");
  } else if (auto formed = destdb::destination_name(words[0])) {
    name = *formed;
  } else {
    wrong_usage("neither a host, an address nor a domain (networks: defer_destinations): " +
                printable(words[0]));
  }
  Tool tool{.config = load_instance(kProgram, directory), .json = json};
  int status = 0;
  if (command == "list" || command == "show") {
    status = look(tool, name);
  } else if (command == "explain") {
    // Without one it is a notice, whose sender is empty.
    std::string sender = words.size() == 2 ? words[1] : std::string();
    if (sender == "<>") sender.clear();
    status = explain(tool, words[0], sender);
  } else {
    words.erase(words.begin());
    status = give(tool, Order{1, order->second, name, join(words)});
  }
  if (std::fflush(stdout) != 0) return EX_IOERR;
  return status;
}
