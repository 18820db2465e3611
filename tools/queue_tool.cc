#include "tools/queue_tool.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <set>
#include <utility>

#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/mail/queue_id.h"
#include "lib/suite/service/as_account.h"
#include "tools/log_dump.h"
#include "tools/progress_bar.h"
#include "tools/queue_client.h"
#include "tools/queue_follow.h"
#include "tools/queue_listing.h"
#include "tools/queue_selection.h"

namespace pen::tools {
namespace {

constexpr const char* kProgram = "penqueue";

using Action = QueueTool::Action;
using Options = QueueTool::Options;

bool lists(Action action) { return action == Action::list || action == Action::json; }

/// Takes the ids and queues to list. Returns what is wrong with the words; empty: nothing.
std::string take_words(Options& o, Selection& selection, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (selection.take_queue(word)) continue;
    if (!mail::is_queue_id(word)) return "neither a queue id nor a queue: " + readable(word);
    o.wanted.queue_ids.push_back(word);
    if (o.wanted.queue_ids.size() > ipc::queue::kMaxIds) return "too many queue ids at once";
  }
  return {};
}

/// Takes the spool files to list. Returns what is wrong with the words; empty: nothing.
std::string take_files(Options& o, const std::vector<std::string>& words) {
  for (const std::string& word : words)
    if (!o.files.take(word)) return "neither a file of the spool nor a queue id: " + readable(word);
  return {};
}

/// Checks the target of -i, -s. Returns what is wrong with it; empty: nothing.
std::string take_target(Options& o) {
  if (o.action == Action::message && !mail::is_queue_id(o.target)) return "not a queue id: " + readable(o.target);
  if (o.action != Action::site) return {};
  if (!QueueTool::is_site(o.target)) return "not a destination: " + readable(o.target) + " (a domain or [host])";
  if (o.target.starts_with('@')) o.target.erase(0, 1);
  return {};
}

std::vector<service::Option> table(Options& o) {
  const auto action = [&o](Action which) { return service::choose(o.action, which, "-p, -j, -f, -i, -s, --log"); };
  const auto with_target = [&o, action](Action which) {
    return [&o, take = action(which)](const service::Given& given) {
      o.target = given.value;
      return take(given);
    };
  };
  return {{"-p", "list, in the form of mailq; with IDs, only those messages", action(Action::list)},
          {"-j", "list, one JSON object a line", action(Action::json)},
          {"-f", "try every deferred message now", action(Action::flush)},
          {"-i ID", "try that message now", with_target(Action::message)},
          {"-s SITE", "try the messages for that domain now", with_target(Action::site)},
          {"--follow",
           "what happens to the message ID, or to all, as it happens; for ID until it leaves the queue. Exit status 0: "
           "delivered to all, 1: returned for some, 2: deleted; with -j one JSON object a line",
           service::set(o.follow)},
          {"--spool", "list the files that hold large messages, and whose they are; with arguments, only those",
           service::set(o.spool)},
          {"--log",
           "print the files of the queue log as text (default: queue_log_directory), whether the "
           "mail system runs or not; with -v every field. Exit status 65: something is damaged",
           action(Action::log)},
          service::directory_option(o.directory)};
}

}  // namespace

std::expected<QueueTool::Options, service::Ending> QueueTool::read(int argc, const char* const* argv) {
  Options o;
  Selection selection;
  const char* slash = argc > 0 ? std::strrchr(argv[0], '/') : nullptr;
  const bool mailq = argc > 0 && std::string_view(slash != nullptr ? slash + 1 : argv[0]) == "mailq";
  service::CommandLine line{
      .program = mailq ? "mailq" : kProgram,
      .usage = {"penqueue [-v] [-c DIR] -p | -j  [CHOICE ...] [ID ...] [QUEUE ...]",
                "penqueue [-v] [-c DIR] -f | -i ID | -s SITE", "penqueue [-c DIR] --follow [-j] [ID]",
                "penqueue [-c DIR] --spool [-p | -j] [FILE | NUMBER | ID ...]",
                "penqueue [-v] [-c DIR] --log [FILE | DIR ...]"},
      .about = "Lists the queue of a Penstock instance and has messages tried now.",
      .options = table(o)};
  if (mailq) {
    line.usage = {"mailq [-C DIR] [CHOICE ...] [ID ...] [QUEUE ...]", "mailq [-C DIR] -q"};
    line.about = "Lists the queue of a Penstock instance.";
    line.options = {service::directory_option(o.directory)};
    line.options.front().names = "-C DIR";
    line.options.push_back({"-q", "try every deferred message now, and list nothing", [&o](const service::Given&) {
                              o.action = Action::flush;
                              return std::string();
                            }});
    // Those of sendmail(1) that callers give with it.
    line.options.push_back({"-i", "accepted, and changes nothing", service::accepted()});
    line.options.push_back({"-A, -o, -O VALUE", "accepted, and change nothing", service::accepted()});
    o.action = Action::list;
  }
  line.options.push_back({"-v", "say what was done", service::set(o.verbose)});
  line.options.push_back({"", "Only messages that every CHOICE fits are listed:"});
  for (auto& row : selection.rows()) line.options.push_back(std::move(row));
  line.options.push_back({"", "and that are in one of the QUEUEs: incoming, active, deferred, hold, maildrop."});
  auto words = line.read(argc, argv);
  if (!words) return std::unexpected(words.error());
  std::string wrong = take_target(o);
  if (o.follow) {
    const bool alone = (o.action == Action::none || o.action == Action::json) && selection.empty() && !o.spool;
    if (!alone || words->size() > 1)
      wrong = "--follow goes with -j and one ID, and with nothing else";
    else if (!words->empty() && !mail::is_queue_id(words->front()))
      wrong = "not a queue id: " + readable(words->front());
    else if (!words->empty())
      o.target = words->front();
  } else if (o.spool) {
    const bool alone = (o.action == Action::none || lists(o.action)) && selection.empty();
    wrong = alone ? take_files(o, *words) : "--spool goes with -p or -j, and with nothing else";
  } else if (lists(o.action)) {
    wrong = take_words(o, selection, *words);
    o.wanted.request = 1;
    o.wanted.filter = selection.filter();
  } else if (o.action == Action::none || !selection.empty() || (o.action != Action::log && !words->empty())) {
    return std::unexpected(line.incomplete());
  } else {
    o.paths = *std::move(words);
  }
  if (!wrong.empty()) return std::unexpected(line.misuse(wrong));
  return o;
}

bool QueueTool::is_site(std::string_view text) {
  if (text.starts_with('@')) text.remove_prefix(1);
  const bool literal = text.starts_with('[');
  if (literal) {
    const auto end = text.find(']');
    if (end == std::string_view::npos) return false;
    const auto port = text.substr(end + 1);
    if (!port.empty() && (port.size() < 2 || !port.starts_with(':'))) return false;
    text = text.substr(1, end - 1);
  }
  if (text.empty() || text.size() > mail::kMaxDomain) return false;
  if (!literal && (text.starts_with('.') || text.find("..") != std::string_view::npos)) return false;
  return std::ranges::all_of(text, [&](char c) {
    return ascii_alpha(c) || ascii_digit(c) || c == '.' || c == '-' || c == '_' || (literal && c == ':') ||
           static_cast<unsigned char>(c) >= 128;
  });
}

int QueueTool::run() {
  if (options_.action == Action::log) return dump();
  const config::Config config = load_instance(kProgram, options_.directory);
  if (options_.follow) return follow_queue(kProgram, config, options_.target, options_.action == Action::json);
  QueueClient client(kProgram, config);
  if (options_.spool) return list_spool(kProgram, client, options_.files, options_.action == Action::json);
  return lists(options_.action) ? list(client) : flush(client);
}

int QueueTool::dump() {
  if (!options_.paths.empty()) return dump_log(kProgram, options_.paths, options_.verbose);
  const config::Config config = load_instance(kProgram, options_.directory);
  // The account that owns the queue chose the names in there: root must not read what that account could not.
  const service::AsAccount owner(service::owners(config.settings()).value_or(service::Owners{}).queue);
  return dump_log(kProgram, {config.settings().queue_log_directory}, options_.verbose);
}

int QueueTool::list(QueueClient& client) {
  const bool json = options_.action == Action::json;
  std::set<std::string> missing(options_.wanted.queue_ids.begin(), options_.wanted.queue_ids.end());
  std::uint64_t count = 0, bytes = 0;
  ipc::queue::Entry whole;  // for a message with so many recipients that it comes in parts
  const auto done = client.ask(options_.wanted, [&](ipc::queue::FromQmgr& m, auto&) {
    auto* e = std::get_if<ipc::queue::Entry>(&m);
    if (e == nullptr) return;
    const auto gather = [&](auto ipc::queue::Entry::* list) {
      std::move((e->*list).begin(), (e->*list).end(), std::back_inserter(whole.*list));
      if (!e->more) e->*list = std::exchange(whole.*list, {});
    };
    gather(&ipc::queue::Entry::recipients);
    gather(&ipc::queue::Entry::originals);
    gather(&ipc::queue::Entry::bounced);
    if (e->more) return;
    if (count++ == 0 && !json) print(mailq_header());
    bytes += e->size;
    missing.erase(e->queue_id);
    print(json ? json_entry(*e) : mailq_entry(*e));
  });
  if (done.outcome != ipc::queue::Outcome::not_found) expect_ok(kProgram, done);
  if (!json && count > 0) print(mailq_footer(bytes, count));
  if (!json && count == 0 && options_.wanted.queue_ids.empty()) print("Mail queue is empty\n");
  if (options_.wanted.filter != ipc::queue::Filter{}) return EX_OK;  // they may be there and not match
  for (const auto& id : missing) std::fprintf(stderr, "%s: %s: no such message in the queue\n", kProgram, id.c_str());
  return missing.empty() ? EX_OK : EX_DATAERR;
}

int QueueTool::flush(QueueClient& client) {
  ipc::queue::Act act;
  act.request = 1;
  act.verb = ipc::queue::Verb::flush;
  act.all = options_.action == Action::flush;
  if (options_.action == Action::site) act.site = options_.target;
  if (options_.action == Action::message) act.queue_ids.push_back(options_.target);
  ProgressBar bar("Flushing");
  const auto done = client.ask(act, [&bar](ipc::queue::FromQmgr& m, auto&) {
    if (const auto* p = std::get_if<ipc::queue::Progress>(&m)) bar.show(p->done, p->total, p->count);
  });
  bar.clear();
  if (done.outcome == ipc::queue::Outcome::not_found && options_.action == Action::message)
    die(kProgram, EX_DATAERR, options_.target + ": no such message in the queue");
  expect_ok(kProgram, done);
  if (options_.verbose) print(std::to_string(done.count) + " messages are tried now\n");
  return EX_OK;
}

}  // namespace pen::tools
