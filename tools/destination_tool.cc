#include "tools/destination_tool.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "lib/base/rate.h"
#include "lib/base/text.h"
#include "lib/queue/destdb/name.h"
#include "lib/receive/resolve/from_settings.h"
#include "lib/send/egress/file.h"
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
  if (!formed) return "neither a host, an address nor a domain (networks: defer_destinations): " + readable(words[0]);
  o.destination = *formed;
  o.reason = join({words.begin() + 1, words.end()});
  return {};
}
/// Also a limit that is of no destination: "tenant:NAME".
std::string take_shown(Options& o, const std::vector<std::string>& words) {
  for (const std::string_view kind : {"tenant:", "domain:"}) {
    if (!words[0].starts_with(kind) || words[0].size() == kind.size() || words[0].size() > kMaxAddress) continue;
    o.destination = words[0];
    return {};
  }
  return take_destination(o, words);
}
std::string take_rate(Options& o, const std::vector<std::string>& words) {
  if (std::string wrong = take_destination(o, {words[0]}); !wrong.empty()) return wrong;
  if (words[1] == "none") return {};
  if (const auto rates = parse_rates(words[1]); !rates) return "\"" + readable(words[1]) + "\" " + rates.error();
  o.rate = words[1];
  return {};
}
std::string take_addresses(Options& o, const std::vector<std::string>& words) {
  // A destination, as alerts and listings name it: why its mail waits is what is known of it.
  if (words.size() == 1 && words[0].find('@') == std::string::npos && destdb::destination_name(words[0])) {
    o.command = Command::show;
    return take_destination(o, words);
  }
  o.recipient = words[0];
  const auto at = o.recipient.rfind('@');
  if (at == std::string::npos || at == 0 || at + 1 == o.recipient.size() || o.recipient.size() > kMaxAddress)
    return "not an address user@domain: " + readable(o.recipient);
  // Without a sender it is a notice: its sender is empty.
  if (words.size() == 2 && words[1] != "<>") o.sender = words[1];
  return o.sender.size() > kMaxAddress ? "no sender is that long" : "";
}
std::string take_source(Options& o, const std::vector<std::string>& words) {
  if (!words.empty()) o.source = words[0];
  return words.empty() || egress::valid_name(words[0]) ? "" : "not a name of a source: " + readable(words[0]);
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
    {"show", " DEST", "everything known of it", Command::show, 1, 1, take_shown},
    {"suspend", " DEST [REASON]", "deliver nothing there until it is resumed, also after a restart", Command::suspend,
     1, kAny, take_destination},
    {"resume", " DEST", "deliver again", Command::resume, 1, 1, take_destination},
    {"forget", " DEST", "drop what was learned of it: failures, limits, times", Command::forget, 1, 1,
     take_destination},
    {"rate", " PROVIDER N/s[,N/m...]|none", "the most that it gets until another order, also after a restart",
     Command::rate, 2, 2, take_rate},
    {"explain", " USER@DOMAIN [SENDER]",
     "where mail for this recipient would go now, and why; of a DEST, what show says", Command::explain, 1, 2,
     take_addresses},
    {"sources", " [NAME]", "the sources of outgoing mail: state, connections, warm-up, blocks", Command::sources, 0, 1,
     take_source}};

/// What is wrong with the command; empty: nothing.
std::string take_command(Options& o, std::vector<std::string> words) {
  const auto* row = std::ranges::find(kCommands, words.front(), &Row::name);
  if (row == std::end(kCommands)) return "unknown command: " + readable(words.front());
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
  line.options.insert(
      line.options.end(),
      {{"",
        "DEST is a host name, an address, either with a port ([192.0.2.1]:25), a domain, or "
        ".DOMAIN for all that is below it. source:NAME is a source, for suspend, resume and forget; show has its "
        "limit, and "
        "those of tenant:NAME and domain:NAME."},
       {"-j, --json", "one JSON object a line, for list, show, explain and sources", service::set(o.json)},
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
      written_(options_.command == Command::explain ? std::make_optional<WrittenSender>(config_) : std::nullopt),
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
    case Command::sources:
      return sources(o.source);
    case Command::suspend:
      return give(Order{1, Verb::suspend, o.destination, o.reason, {}});
    case Command::resume:
      return give(Order{1, Verb::resume, o.destination, {}, {}});
    case Command::forget:
      return give(Order{1, Verb::forget, o.destination, {}, {}});
    case Command::rate:
      return give(Order{1, Verb::rate, o.destination, {}, o.rate});
  }
  return EX_SOFTWARE;
}

void DestinationTool::print_one(const Seen& d, bool whole) const {
  print(options_.json ? json_line(d) : whole ? show_text(d) : list_line(d));
}

void DestinationTool::print_one(const destdb::Suspension& s, bool whole) const {
  print(options_.json ? json_line(s) : whole ? show_text(s) : list_line(s));
}

/// What the queue manager has in memory.
struct DestinationTool::Memory {
  bool up = false;  // it answers
  std::map<std::string, Seen> destinations;
  destdb::Suspensions suspensions;
  Backend backend;
  std::vector<LimitSeen> limits;
};

DestinationTool::Memory DestinationTool::ask(const std::string& name) {
  Memory memory;
  const auto note_one = [&](FromQmgr& m) {
    if (auto* s = std::get_if<Suspended>(&m)) {
      memory.suspensions.emplace(s->name, destdb::Suspension{s->name, s->reason, s->since});
    } else if (auto* e = std::get_if<Entry>(&m)) {
      const std::string key = e->key;
      memory.destinations.insert_or_assign(key, from_qmgr(std::move(*e)));
    } else if (auto* b = std::get_if<Backend>(&m)) {
      memory.backend = std::move(*b);
    } else if (auto* l = std::get_if<LimitSeen>(&m)) {
      memory.limits.push_back(std::move(*l));
    }
  };
  memory.up = qmgr_.ask(Find{.request = 1, .name = name, .limits = true}, note_one).has_value();
  return memory;
}

/// Of the file, where the queue manager does not answer or the file cannot be read. Returns the exit status.
int DestinationTool::say_what_is_missing(bool up, const Result<void>& read) {
  if (!up) note("the mail system is not running; this is what it knew when it last wrote (" + qmgr_.why() + ")");
  if (read || read.error().is_errno(ENOENT)) return EX_OK;
  note((up ? "only what is in memory is shown, the file cannot be read: " : "the file cannot be read: ") +
       read.error().message());
  if (up) return EX_OK;
  return read.error().is_errno(EACCES) || read.error().is_errno(EPERM) ? EX_NOPERM : EX_IOERR;
}

int DestinationTool::look(const std::string& name) {
  const bool whole = !name.empty();
  Memory memory = ask(name);
  const bool up = memory.up;
  std::uint64_t count = 0;
  bool begun = false;
  const auto begin = [&](const destdb::Suspensions& all) {
    begun = true;
    if (memory.backend.name == "redis")
      print(options_.json ? json_line(memory.backend) : "knowledge: " + backend_text(memory.backend) + "\n");
    if (!options_.json && !whole) print(list_header());
    for (const auto& [key, s] : all) {
      if (whole && key != name) continue;
      ++count;
      print_one(s, whole);
    }
  };
  if (up) begin(memory.suspensions);
  const WallTime t = now();
  const auto read = file_.each(!up, [&](const std::string& key, const destdb::Facts& facts) {
    if (!begun) begin(file_.suspensions());
    if (const auto it = memory.destinations.find(key); it != memory.destinations.end()) {
      ++count;
      print_one(it->second, whole);
      memory.destinations.erase(it);
    } else if (!whole || fits(name, facts)) {
      ++count;
      print_one(from_file(key, facts, up ? memory.suspensions : file_.suspensions(), t), whole);
    }
  });
  if (!begun && read) begin(file_.suspensions());
  for (const auto& [key, d] : memory.destinations) {
    ++count;
    print_one(d, whole);
  }
  if (!options_.json && !whole && !memory.limits.empty()) print("LIMITS\n");
  for (const LimitSeen& l : memory.limits) {
    ++count;
    print(options_.json ? json_line(l) : limit_line(l));
  }
  if (const int status = say_what_is_missing(up, read); status != EX_OK) return status;
  if (!whole || count != 0) return EX_OK;
  note("nothing is known of " + name + " (a domain's hosts: " + kProgram + " explain user@" + name + ")");
  return EX_DATAERR;
}

int DestinationTool::order_in_file(const Order& order) {
  if (order.verb == Verb::rate)
    die(kProgram, EX_UNAVAILABLE, "the mail system is not running, and a rate is ordered of it: " + qmgr_.why());
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
                       destdb::Suspension{order.name, readable(order.reason), now()}});
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
        order.verb == Verb::resume ? order.name + " is not suspended by hand"
        : order.verb == Verb::rate ? order.name + " is no provider, nor the hosts of a route that is in memory"
                                   : "nothing is known of " + order.name);
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

int DestinationTool::sources(const std::string& name) {
  bool header = !options_.json;
  const auto done = qmgr_.ask(FindSources{1, name}, [&](FromQmgr& m) {
    if (std::exchange(header, false)) print(source_header());
    if (const auto* s = std::get_if<SourceSeen>(&m)) print(options_.json ? json_line(*s) : source_line(*s));
    if (const auto* g = std::get_if<SourceGroup>(&m)) print(options_.json ? json_line(*g) : source_line(*g));
  });
  if (!done) die(kProgram, EX_UNAVAILABLE, "the mail system is not running: " + qmgr_.why());
  if (done->outcome == Outcome::not_found) die(kProgram, EX_DATAERR, "there is no source " + name);
  if (done->count == 0) note("mail is sent from no sources (egress_sources_file, default_egress_pool)");
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
  e.suspended = suspended;
  std::string text = "recipient    " + readable(e.recipient) + "\ntransport    " + e.transport + "\nnext hop     " +
                     readable(e.nexthop) + "\n";
  if (!e.by_sender.empty()) text += "by sender    " + e.by_sender + "\n";
  for (const auto& d : hosts) text += show_text(d);
  if (!suspended.empty()) text += "decision     deferred: " + readable(suspended) + "\n";
  print_explained(e, hosts, text, {});
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
  print_explained(explained, hosts, explain_text(explained, hosts, backend, now()), backend);
  return 0;
}

void DestinationTool::print_explained(const Explained& e, const std::vector<Seen>& hosts, const std::string& text,
                                      const Backend& backend) {
  const std::string sender = written_->of(options_.sender, e.recipient, e.transport);
  const std::string& problem = written_->problem();
  if (options_.json) {
    auto j = views::to_json(e, hosts, backend);
    if (!sender.empty()) j["rewritten_sender"] = readable(sender, 1000);
    if (!problem.empty()) j["rewritten_sender_unknown"] = problem;
    return print(views::text_of(j));
  }
  print(text);
  if (!sender.empty())
    print("sender       " + readable(sender, 1000) + " by SRS" +
          (written_->always() ? "" : ", if the mail is forwarded from here") + "\n");
  if (!problem.empty()) print("sender       not known: " + readable(problem) + "\n");
}

}  // namespace pen::tools
