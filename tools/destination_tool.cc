#include "tools/destination_tool.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iterator>
#include <map>
#include <vector>

#include "lib/base/text.h"
#include "lib/destdb/name.h"
#include "lib/resolve/from_settings.h"
#include "tools/output.h"

namespace pen::tools {
namespace {

using namespace ipc::destinations;

constexpr const char* kProgram = "pendest";
constexpr std::size_t kMaxAddress = 1000;

using Options = DestinationTool::Options;
using Command = DestinationTool::Command;

/// Takes the words after the command. Returns what is wrong; empty: nothing.
std::string take_destination(Options& o, const std::vector<std::string>& words) {
  const auto formed = destdb::destination_name(words[0]);
  if (!formed) return "neither a host, an address nor a domain (networks: defer_destinations): " + printable(words[0]);
  o.destination = *formed;
  o.reason = join({words.begin() + 1, words.end()});
  return {};
}
std::string take_addresses(Options& o, const std::vector<std::string>& words) {
  o.recipient = words[0];
  const auto at = o.recipient.rfind('@');
  if (at == std::string::npos || at == 0 || at + 1 == o.recipient.size() || o.recipient.size() > kMaxAddress)
    return "not an address user@domain: " + printable(o.recipient);
  // Without a sender it is a notice, whose sender is empty.
  if (words.size() == 2 && words[1] != "<>") o.sender = words[1];
  return o.sender.size() > kMaxAddress ? "no sender is that long" : "";
}
std::string take_nothing(Options&, const std::vector<std::string>&) { return {}; }

/// The commands, as --help shows them.
struct Row {
  const char* name;
  const char* words;  // after the command
  const char* text;
  Command command;
  std::size_t least, most;  // words
  std::string (*take)(Options&, const std::vector<std::string>&);
};
constexpr std::size_t kAny = static_cast<std::size_t>(-1);
constexpr Row kCommands[] = {
    {"list", "", "every destination: state, connections, failures, next try", Command::list, 0, 0, take_nothing},
    {"show", " DEST", "everything known of it", Command::show, 1, 1, take_destination},
    {"suspend", " DEST [REASON]", "deliver nothing there until it is resumed, also after a restart", Command::suspend,
     1, kAny, take_destination},
    {"resume", " DEST", "deliver again", Command::resume, 1, 1, take_destination},
    {"forget", " DEST", "drop what was learned of it: failures, limits, times", Command::forget, 1, 1,
     take_destination},
    {"explain", " USER@DOMAIN [SENDER]", "where mail for this recipient would go now, and why", Command::explain, 1, 2,
     take_addresses}};

/// What is wrong with the command; empty: nothing.
std::string take_command(Options& o, std::vector<std::string> words) {
  const auto* row = std::ranges::find(kCommands, words.front(), &Row::name);
  if (row == std::end(kCommands)) return "unknown command: " + printable(words.front());
  o.command = row->command;
  words.erase(words.begin());
  if (words.size() < row->least || words.size() > row->most)
    return std::string(row->name) + (row->most == 0 ? " takes no argument" : " takes") + row->words;
  return row->take(o, words);
}

void note(const std::string& text) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s: %s\n", kProgram, text.c_str());
}

WallTime now() { return system_clock().wall_now(); }

bool fits(const std::string& name, const destdb::Facts& facts) {
  const auto shown = destdb::parse_shown(facts.shown);
  const auto names = destdb::names_of(shown.host, shown.address, shown.port);
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::expected<DestinationTool::Options, service::Ending> DestinationTool::read(int argc, const char* const* argv) {
  Options o;
  service::CommandLine line{.program = kProgram,
                            .usage = {"pendest [-c DIR] [-j] COMMAND"},
                            .about = "Looks at the destinations of a Penstock instance, and has mail for them wait.",
                            .options = {}};
  for (const Row& row : kCommands) line.options.push_back({std::string(row.name) + row.words, row.text});
  line.options.insert(line.options.end(),
                      {{"",
                        "DEST is a host name, an address, either with a port ([192.0.2.1]:25), a domain, or "
                        ".DOMAIN for all that is below it."},
                       {"-j, --json", "one JSON object a line, for list, show and explain", service::set(o.json)},
                       service::directory_option(o.directory)});
  const auto words = line.read(argc, argv);
  if (!words) return std::unexpected(words.error());
  if (words->empty()) return std::unexpected(line.incomplete());
  if (const std::string wrong = take_command(o, *words); !wrong.empty()) return std::unexpected(line.misuse(wrong));
  return o;
}

DestinationTool::DestinationTool(Options options)
    : options_(std::move(options)),
      config_(load_instance(kProgram, options_.directory)),
      qmgr_(kProgram, config_),
      file_(config_) {}

int DestinationTool::run() {
  const Options& o = options_;
  switch (o.command) {
    case Command::list:
    case Command::show:
      return look(o.destination);
    case Command::explain:
      return explain(o.recipient, o.sender);
    case Command::suspend:
      return give(Order{1, Verb::suspend, o.destination, o.reason});
    case Command::resume:
      return give(Order{1, Verb::resume, o.destination, {}});
    case Command::forget:
      return give(Order{1, Verb::forget, o.destination, {}});
  }
  return EX_SOFTWARE;
}

void DestinationTool::print_one(const Seen& d, bool whole) const {
  print(options_.json ? json_line(d) : whole ? show_text(d) : list_line(d));
}

void DestinationTool::print_one(const destdb::Suspension& s, bool whole) const {
  print(options_.json ? json_line(s) : whole ? show_text(s) : list_line(s));
}

int DestinationTool::look(const std::string& name) {
  const bool whole = !name.empty();
  std::map<std::string, Seen> live;
  destdb::Suspensions suspensions;
  Backend backend;
  const bool up = qmgr_
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
      print(options_.json ? json_line(backend) : "knowledge: " + backend_text(backend) + "\n");
    if (!options_.json && !whole) print(list_header());
    for (const auto& [key, s] : all) {
      if (whole && key != name) continue;
      ++count;
      print_one(s, whole);
    }
  };
  if (up) begin(suspensions);
  const WallTime t = now();
  const auto read = file_.each(!up, [&](const std::string& key, const destdb::Facts& facts) {
    if (!begun) begin(file_.suspensions());
    if (const auto it = live.find(key); it != live.end()) {
      ++count;
      print_one(it->second, whole);
      live.erase(it);
    } else if (!whole || fits(name, facts)) {
      ++count;
      print_one(from_file(key, facts, up ? suspensions : file_.suspensions(), t), whole);
    }
  });
  if (!begun && read) begin(file_.suspensions());
  for (const auto& [key, d] : live) {
    ++count;
    print_one(d, whole);
  }
  const bool missing = !read && read.error().is_errno(ENOENT);
  if (!up) note("the mail system is not running; this is what it knew when it last wrote (" + qmgr_.why() + ")");
  if (!read && !missing) {
    note((up ? "only what is in memory is shown, the file cannot be read: " : "the file cannot be read: ") +
         read.error().message());
    if (!up) return read.error().is_errno(EACCES) || read.error().is_errno(EPERM) ? EX_NOPERM : EX_IOERR;
  }
  if (whole && count == 0) {
    note("nothing is known of " + name + " (a domain's hosts: " + kProgram + " explain user@" + name + ")");
    return EX_DATAERR;
  }
  return 0;
}

int DestinationTool::order_in_file(const Order& order) {
  std::vector<destdb::Change> changes;
  const auto read = file_.each(true, [&](const std::string& key, const destdb::Facts& facts) {
    if (order.verb == Verb::forget && fits(order.name, facts))
      changes.push_back({destdb::Change::Kind::facts, key, {}, {}});
  });
  if (!read) {
    if (read.error().is_errno(ENOENT))
      die(kProgram, EX_UNAVAILABLE, "the mail system is not running and has never run here: " + qmgr_.why());
    die(kProgram, read.error().is_errno(EACCES) ? EX_NOPERM : EX_IOERR, read.error().message());
  }
  if (order.verb == Verb::suspend)
    changes.push_back({destdb::Change::Kind::suspension,
                       order.name,
                       {},
                       destdb::Suspension{order.name, printable(order.reason), now()}});
  if (order.verb == Verb::resume && file_.suspensions().contains(order.name))
    changes.push_back({destdb::Change::Kind::suspension, order.name, {}, {}});
  if (changes.empty()) return EX_DATAERR;
  if (auto written = file_.write(changes); !written)
    die(kProgram, written.error().is_errno(EACCES) ? EX_NOPERM : EX_IOERR, written.error().message());
  note("the mail system is not running; this applies from its next start on");
  return 0;
}

int DestinationTool::give(const Order& order) {
  const auto nothing = [&] {
    die(kProgram, EX_DATAERR,
        order.verb == Verb::resume ? order.name + " is not suspended by hand" : "nothing is known of " + order.name);
  };
  const auto done = qmgr_.ask(order, [](FromQmgr&) {});
  if (!done) {
    const int status = order_in_file(order);
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

int DestinationTool::explain_without_qmgr(const std::string& recipient, const std::string& sender) {
  auto resolve = resolve::Resolve::open(resolve::from_settings(config_.settings()));
  if (!resolve) die(kProgram, EX_CONFIG, resolve.error().message());
  auto route = (*resolve)->route(sender, recipient);
  if (!route) die(kProgram, EX_TEMPFAIL, route.error().message());
  Explained e;
  e.recipient = route->recipient.empty() ? recipient : route->recipient;
  e.transport = route->transport;
  e.nexthop = route->nexthop;
  e.by_sender = route->by_sender;
  const auto limits = config_.transport(route->transport);
  e.concurrency = static_cast<std::uint32_t>(limits.destination_concurrency_limit);
  e.recipients = static_cast<std::uint32_t>(limits.destination_recipient_limit);
  e.rate_delay = limits.destination_rate_delay;
  std::vector<std::string> names = destdb::names_of_nexthop(route->nexthop);
  for (auto& name : destdb::names_of_nexthop(e.recipient.substr(e.recipient.rfind('@') + 1)))
    names.push_back(std::move(name));
  std::vector<Seen> hosts;
  const WallTime t = now();
  const auto read = file_.each(true, [&](const std::string& key, const destdb::Facts& facts) {
    if (std::any_of(names.begin(), names.end(), [&](const auto& n) { return !n.starts_with('.') && fits(n, facts); }))
      hosts.push_back(from_file(key, facts, file_.suspensions(), t));
  });
  std::string suspended;
  for (const auto& n : names) {
    const auto it = file_.suspensions().find(n);
    if (it != file_.suspensions().end() && suspended.empty())
      suspended = "delivery to " + n + " is suspended" + (it->second.reason.empty() ? "" : ": " + it->second.reason);
  }
  if (options_.json) {
    e.suspended = suspended;
    print(json_line(e, hosts, {}));
  } else {
    print("recipient    " + printable(e.recipient) + "\ntransport    " + e.transport + "\nnext hop     " +
          printable(e.nexthop) + "\n");
    if (!e.by_sender.empty()) print("by sender    " + e.by_sender + "\n");
    for (const auto& d : hosts) print(show_text(d));
    if (!suspended.empty()) print("decision     deferred: " + printable(suspended) + "\n");
  }
  note("the mail system is not running: its hosts and what would be chosen are not known (" + qmgr_.why() + ")");
  if (!read && !read.error().is_errno(ENOENT)) note(read.error().message());
  return 0;
}

int DestinationTool::explain(const std::string& recipient, const std::string& sender) {
  Explained explained;
  std::vector<Seen> hosts;
  Backend backend;
  const auto done = qmgr_.ask(Explain{1, recipient, sender}, [&](FromQmgr& m) {
    if (auto* e = std::get_if<Explained>(&m)) explained = std::move(*e);
    if (auto* e = std::get_if<Entry>(&m)) hosts.push_back(from_qmgr(std::move(*e)));
    if (auto* b = std::get_if<Backend>(&m)) backend = std::move(*b);
  });
  if (!done) return explain_without_qmgr(recipient, sender);
  if (done->outcome != Outcome::ok) die(kProgram, EX_TEMPFAIL, done->text);
  print(options_.json ? json_line(explained, hosts, backend) : explain_text(explained, hosts, backend, now()));
  return 0;
}

}  // namespace pen::tools
