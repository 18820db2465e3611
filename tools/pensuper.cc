/// pensuper: removes, holds, releases, requeues and expires messages. Manual: man/pensuper.1.
#include <getopt.h>
#include <sysexits.h>

#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "lib/base/text.h"
#include "lib/mail/queue_id.h"
#include "tools/progress_bar.h"
#include "tools/queue_client.h"
#include "tools/queue_listing.h"
#include "tools/queue_selection.h"

namespace {

using namespace pen;
using namespace pen::tools;
using ipc::queue::Verb;

constexpr const char* kProgram = "pensuper";
constexpr const char* kHelp =
    "usage: pensuper [-nv] [-c DIR] [-d ID] [-h ID] [-H ID] [-r ID] [-e ID] [-f ID] [CHOICE ...] "
    "[QUEUE ...]\n"
    "\n"
    "Acts on messages in the queue of a Penstock instance. ID is a queue id, ALL, or - to read "
    "ids\n"
    "from standard input, one a line.\n"
    "  -d ID    delete\n"
    "  -h ID    put on hold\n"
    "  -H ID    release from hold\n"
    "  -r ID    requeue: routed again, as new\n"
    "  -e ID    expire: tried once more at once, then returned to the sender; on hold: when "
    "released\n"
    "  -f ID    expire, and release from hold\n"
    "  -n, --dry-run   list the messages that would be acted on, and do nothing\n"
    "  -c DIR   the directory of main.cf (default: MAIL_CONFIG, else /etc/penstock)\n"
    "  -v       name each message that is asked for\n"
    "  -p, -s, -S  refused: there are no queue files to purge or to repair\n"
    "Of the messages named, only those that every CHOICE fits:\n";
constexpr const char* kHelpEnd =
    "and that are in one of the QUEUEs: incoming, active, deferred, hold (default: all of these); "
    "or\n"
    "maildrop, where messages wait that were submitted and not yet taken: -d deletes them.\n"
    "  --help, --version\n";

struct Order {
  Verb verb;
  bool all = false;
  bool input = false;  // ids come from standard input
  std::vector<std::string> ids;
};

struct Words {
  const char *past, *doing, *would;
};
Words words(Verb verb) {
  switch (verb) {
    case Verb::remove:
      return {"Deleted", "Deleting", "Would delete"};
    case Verb::hold:
      return {"Placed on hold", "Placing on hold", "Would place on hold"};
    case Verb::release:
      return {"Released from hold", "Releasing from hold", "Would release from hold"};
    case Verb::requeue:
      return {"Requeued", "Requeueing", "Would requeue"};
    case Verb::expire:
    case Verb::expire_release:
      return {"Expired", "Expiring", "Would expire"};
    case Verb::flush:
      return {"Flushed", "Flushing", "Would flush"};
  }
  return {"", "", ""};
}

/// Ids named one after the other with the same letter are one order: one pass over the queue.
void add_order(std::vector<Order>& orders, Verb verb, const std::string& argument) {
  if (argument == "ALL") {
    orders.push_back({verb, true, false, {}});
  } else if (argument == "-") {
    orders.push_back({verb, false, true, {}});
  } else if (mail::is_queue_id(argument)) {
    if (orders.empty() || orders.back().verb != verb || orders.back().ids.empty() ||
        orders.back().ids.size() >= ipc::queue::kMaxIds)
      orders.push_back({verb, false, false, {}});
    orders.back().ids.push_back(argument);
  } else {
    die(kProgram, EX_USAGE,
        "not a queue id: " + printable(argument) + " (use ALL for every message)");
  }
}

/// The next ids of standard input, as many as one request may name. A line that is none is told, and passed over.
std::vector<std::string> read_ids() {
  std::vector<std::string> ids;
  for (std::string line; ids.size() < ipc::queue::kMaxIds && std::getline(std::cin, line);) {
    const std::string id(trim(line));
    if (id.empty()) continue;
    if (mail::is_queue_id(id))
      ids.push_back(id);
    else
      std::fprintf(stderr, "%s: warning: not a queue id: %s\n", kProgram, printable(id).c_str());
  }
  return ids;
}

class Runner {
 public:
  Runner(const config::Config& config, ipc::queue::Filter filter, bool dry_run, bool verbose)
      : client_(kProgram, config),
        filter_(std::move(filter)),
        dry_run_(dry_run),
        verbose_(verbose) {}

  void run(const Order& o) {
    std::uint64_t count = 0;
    if (o.input) {
      for (auto ids = read_ids(); !ids.empty(); ids = read_ids()) count += ask(o, std::move(ids));
    } else {
      count = ask(o, o.ids);
    }
    if (count == 0 && !o.all && !dry_run_) return;
    std::fprintf(stderr, "%s: %s: %llu message%s\n", kProgram,
                 dry_run_ ? words(o.verb).would : words(o.verb).past,
                 static_cast<unsigned long long>(count), count == 1 ? "" : "s");
  }
  int status() const { return status_; }

 private:
  std::uint64_t ask(const Order& o, std::vector<std::string> ids) {
    using ipc::queue::Outcome;
    ipc::queue::Act act;
    act.request = 1;
    act.verb = o.verb;
    act.all = o.all;
    act.queue_ids = std::move(ids);
    act.filter = filter_;
    act.dry_run = dry_run_;
    const std::string named = act.queue_ids.empty() ? std::string() : act.queue_ids.front();
    const std::size_t count = act.queue_ids.size();
    if (verbose_)
      for (const auto& id : act.queue_ids)
        std::fprintf(stderr, "%s: %s: asked for\n", kProgram, id.c_str());
    ProgressBar bar(words(o.verb).doing);
    const auto done = client_.ask(act, [&bar](ipc::queue::FromQmgr& m, std::vector<async::Fd>&) {
      if (const auto* p = std::get_if<ipc::queue::Progress>(&m)) {
        bar.show(p->done, p->total, p->count);
      } else if (const auto* e = std::get_if<ipc::queue::Entry>(&m)) {
        bar.clear();
        print(mailq_line(*e));
      }
    });
    bar.clear();
    if (done.outcome == Outcome::denied) die(kProgram, EX_NOPERM, done.text);
    // As with postsuper no error: ids from a list that is a little old are to be expected.
    if (done.outcome == Outcome::not_found && count == 1)
      std::fprintf(stderr, "%s: %s: no such message in the queue\n", kProgram, named.c_str());
    else if (done.outcome == Outcome::not_found && count > 1)
      std::fprintf(stderr, "%s: none of these %zu messages is in the queue\n", kProgram, count);
    if (done.outcome == Outcome::no_space) {
      std::fprintf(stderr,
                   "%s: %s: no space in the queue's file system to write the message anew; free "
                   "some and repeat\n",
                   kProgram, done.text.c_str());
      status_ = EX_OSERR;
    }
    if (done.outcome == Outcome::failed) {
      std::fprintf(stderr, "%s: failed: %s\n", kProgram, done.text.c_str());
      status_ = EX_SOFTWARE;
    }
    return done.count;
  }

  QueueClient client_;
  ipc::queue::Filter filter_;
  bool dry_run_, verbose_;
  int status_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  std::vector<option> long_options(Selection::options().begin(), Selection::options().end());
  long_options.push_back({"help", no_argument, nullptr, 1});
  long_options.push_back({"version", no_argument, nullptr, 2});
  long_options.push_back({"dry-run", no_argument, nullptr, 'n'});
  long_options.push_back({nullptr, 0, nullptr, 0});
  std::string directory;
  bool verbose = false, dry_run = false;
  Selection selection(kProgram);
  std::vector<Order> orders;
  for (int c; (c = ::getopt_long(argc, argv, "c:d:e:f:h:H:nr:psSv", long_options.data(),
                                 nullptr)) != -1;) {
    if (selection.take(c, optarg)) continue;
    switch (c) {
      case 1:
        std::printf("%s%s%s", kHelp, Selection::help(), kHelpEnd);
        return 0;
      case 2:
        std::printf("pensuper (Penstock) %s\n", PEN_VERSION);
        return 0;
      case 'c':
        directory = optarg;
        break;
      case 'n':
        dry_run = true;
        break;
      case 'v':
        verbose = true;
        break;
      case 'd':
        add_order(orders, Verb::remove, optarg);
        break;
      case 'h':
        add_order(orders, Verb::hold, optarg);
        break;
      case 'H':
        add_order(orders, Verb::release, optarg);
        break;
      case 'r':
        add_order(orders, Verb::requeue, optarg);
        break;
      case 'e':
        add_order(orders, Verb::expire, optarg);
        break;
      case 'f':
        add_order(orders, Verb::expire_release, optarg);
        break;
      case 'p':
      case 's':
      case 'S':
        die(kProgram, EX_USAGE,
            std::string("-") + static_cast<char>(c) +
                " is not needed here: the queue has no files to repair or purge");
      default:
        std::fprintf(stderr, "%s%s%s", kHelp, Selection::help(), kHelpEnd);
        return EX_USAGE;
    }
  }
  for (int i = optind; i < argc; ++i)
    if (!selection.take_queue(argv[i]))
      die(kProgram, EX_USAGE,
          "not a queue: " + printable(argv[i]) + " (incoming, active, deferred, hold, maildrop)");
  if (orders.empty()) {
    if (!selection.empty() || dry_run)
      die(kProgram, EX_USAGE, "say what to do with these messages: -d ALL deletes them");
    std::fprintf(stderr, "%s%s%s", kHelp, Selection::help(), kHelpEnd);
    return EX_USAGE;
  }
  const bool in_maildrop =
      (selection.filter().places & ipc::queue::bit_of(ipc::queue::Place::maildrop)) != 0;
  for (const Order& o : orders)
    if (in_maildrop && o.verb != Verb::remove)
      die(kProgram, EX_USAGE, "what is in maildrop can be deleted (-d) and nothing else");
  const config::Config config = load_instance(kProgram, directory);
  Runner runner(config, selection.filter(), dry_run, verbose);
  for (const Order& o : orders) runner.run(o);
  if (std::fflush(stdout) != 0) return EX_IOERR;
  return runner.status();
}
