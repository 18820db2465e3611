/// pensuper: removes, holds, releases, requeues and expires messages. Manual: man/pensuper.1.
#include <getopt.h>
#include <sysexits.h>

#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "lib/base/text.h"
#include "lib/mail/queue_id.h"
#include "tools/queue_client.h"

namespace {

using namespace pen;
using namespace pen::tools;
using ipc::queue::Verb;

constexpr const char* kProgram = "pensuper";
constexpr const char* kHelp =
    "usage: pensuper [-v] [-c DIR] [-d ID] [-h ID] [-H ID] [-r ID] [-e ID] [-f ID]\n"
    "\n"
    "Acts on messages in the queue of a Penstock instance. ID is a queue id, ALL, or - to read "
    "ids\n"
    "from standard input, one a line.\n"
    "  -d ID    delete\n"
    "  -h ID    put on hold\n"
    "  -H ID    release from hold\n"
    "  -r ID    requeue: routed again, as new\n"
    "  -e ID    expire: tried once more at once, then returned to the sender\n"
    "  -f ID    the same\n"
    "  -c DIR   the directory of main.cf (default: MAIL_CONFIG, else /etc/penstock)\n"
    "  -v       name each order\n"
    "  --help, --version\n";

struct Order {
  Verb verb;
  bool all = false;
  std::vector<std::string> ids;
};

const char* past(Verb verb) {
  switch (verb) {
    case Verb::remove:
      return "Deleted";
    case Verb::hold:
      return "Placed on hold";
    case Verb::release:
      return "Released from hold";
    case Verb::requeue:
      return "Requeued";
    case Verb::expire:
      return "Expired";
    case Verb::flush:
      return "Flushed";
  }
  return "";
}

Order order(Verb verb, const std::string& argument) {
  Order o{verb, false, {}};
  if (argument == "ALL") {
    o.all = true;
  } else if (argument == "-") {
    for (std::string line; std::getline(std::cin, line);) {
      const std::string id(trim(line));
      if (id.empty()) continue;
      if (!mail::is_queue_id(id)) die(kProgram, EX_DATAERR, "not a queue id: " + printable(id));
      o.ids.push_back(id);
    }
  } else if (mail::is_queue_id(argument)) {
    o.ids.push_back(argument);
  } else {
    die(kProgram, EX_USAGE,
        "not a queue id: " + printable(argument) + " (use ALL for every message)");
  }
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  static constexpr option kLong[] = {{"help", no_argument, nullptr, 1},
                                     {"version", no_argument, nullptr, 2},
                                     {nullptr, 0, nullptr, 0}};
  std::string directory;
  bool verbose = false;
  std::vector<Order> orders;
  for (int c; (c = ::getopt_long(argc, argv, "c:d:e:f:h:H:r:psSv", kLong, nullptr)) != -1;) {
    switch (c) {
      case 1:
        std::fputs(kHelp, stdout);
        return 0;
      case 2:
        std::printf("pensuper (Penstock) %s\n", PEN_VERSION);
        return 0;
      case 'c':
        directory = optarg;
        break;
      case 'v':
        verbose = true;
        break;
      case 'd':
        orders.push_back(order(Verb::remove, optarg));
        break;
      case 'h':
        orders.push_back(order(Verb::hold, optarg));
        break;
      case 'H':
        orders.push_back(order(Verb::release, optarg));
        break;
      case 'r':
        orders.push_back(order(Verb::requeue, optarg));
        break;
      case 'e':
        orders.push_back(order(Verb::expire, optarg));
        break;
      case 'f':
        orders.push_back(order(Verb::expire, optarg));
        break;
      case 'p':
      case 's':
      case 'S':
        die(kProgram, EX_USAGE,
            std::string("-") + static_cast<char>(c) +
                " is not needed here: the queue has no files to repair or purge");
      default:
        std::fputs(kHelp, stderr);
        return EX_USAGE;
    }
  }
  if (orders.empty() || optind != argc) {
    std::fputs(kHelp, stderr);
    return EX_USAGE;
  }
  const config::Config config = load_instance(kProgram, directory);
  QueueClient client(kProgram, config);
  int status = 0;
  for (const Order& o : orders) {
    if (!o.all && o.ids.empty()) continue;
    ipc::queue::Act act;
    act.request = 1;
    act.verb = o.verb;
    act.all = o.all;
    act.queue_ids = o.ids;
    if (verbose) {
      for (const auto& id : o.ids)
        std::fprintf(stderr, "%s: %s: asked for\n", kProgram, id.c_str());
    }
    const auto done = client.ask(act, [](ipc::queue::FromQmgr&, std::vector<async::Fd>&) {});
    using ipc::queue::Outcome;
    if (done.outcome == Outcome::denied) die(kProgram, EX_NOPERM, done.text);
    if (done.outcome == Outcome::failed) {
      std::fprintf(stderr, "%s: failed: %s\n", kProgram, done.text.c_str());
      status = EX_SOFTWARE;
    }
    if (done.count > 0 || o.all) {
      std::fprintf(stderr, "%s: %s: %llu message%s\n", kProgram, past(o.verb),
                   static_cast<unsigned long long>(done.count), done.count == 1 ? "" : "s");
    }
  }
  return status;
}
