/// penqueue: lists the queue and has messages tried now. Manual: man/penqueue.1. Called mailq it lists.
#include <getopt.h>
#include <sysexits.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "lib/mail/queue_id.h"
#include "tools/queue_client.h"
#include "tools/queue_listing.h"

namespace {

using namespace pen;
using namespace pen::tools;

constexpr const char* kHelp =
    "usage: penqueue [-v] [-c DIR] -p | -j | -f | -i ID | -s SITE\n"
    "       mailq [-C DIR]\n"
    "\n"
    "Lists the queue of a Penstock instance and has messages tried now.\n"
    "  -p       list, in the form of mailq\n"
    "  -j       list, one JSON object a line\n"
    "  -f       try every deferred message now\n"
    "  -i ID    try that message now\n"
    "  -s SITE  try the messages for that domain now\n"
    "  -c DIR   the directory of main.cf (default: MAIL_CONFIG, else /etc/penstock)\n"
    "  -v       say what was done\n"
    "  --help, --version\n";

constexpr const char* kProgram = "penqueue";

void check(const ipc::queue::Done& done) {
  using ipc::queue::Outcome;
  switch (done.outcome) {
    case Outcome::ok:
      return;
    case Outcome::not_found:
      die(kProgram, EX_DATAERR, "no such message in the queue");
    case Outcome::denied:
      die(kProgram, EX_NOPERM, done.text);
    case Outcome::failed:
      die(kProgram, EX_SOFTWARE, "failed: " + done.text);
  }
}

void list(QueueClient& client, bool json) {
  std::uint64_t count = 0, bytes = 0;
  const auto done =
      client.ask(ipc::queue::List{.request = 1, .site = {}, .queue_id = {}},
                 [&](ipc::queue::FromQmgr& m, std::vector<async::Fd>&) {
                   const auto* e = std::get_if<ipc::queue::Entry>(&m);
                   if (e == nullptr) return;
                   if (count++ == 0 && !json) std::fputs(mailq_header().c_str(), stdout);
                   bytes += e->size;
                   std::fputs((json ? json_entry(*e) : mailq_entry(*e)).c_str(), stdout);
                 });
  check(done);
  if (json) return;
  std::fputs(count == 0 ? "Mail queue is empty\n" : mailq_footer(bytes, count).c_str(), stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const char* slash = std::strrchr(argv[0], '/');
  const bool mailq = std::string(slash != nullptr ? slash + 1 : argv[0]) == "mailq";
  static constexpr option kLong[] = {{"help", no_argument, nullptr, 1},
                                     {"version", no_argument, nullptr, 2},
                                     {nullptr, 0, nullptr, 0}};
  std::string directory, argument;
  int action = mailq ? 'p' : 0;
  bool verbose = false;
  for (int c;
       (c = ::getopt_long(argc, argv, mailq ? "C:v" : "c:fi:jps:v", kLong, nullptr)) != -1;) {
    switch (c) {
      case 1:
        std::fputs(kHelp, stdout);
        return 0;
      case 2:
        std::printf("penqueue (Penstock) %s\n", PEN_VERSION);
        return 0;
      case 'c':
      case 'C':
        directory = optarg;
        break;
      case 'v':
        verbose = true;
        break;
      case 'i':
      case 's':
        argument = optarg;
        [[fallthrough]];
      case 'p':
      case 'j':
      case 'f':
        if (action != 0 && action != c) die(kProgram, EX_USAGE, "only one of -p, -j, -f, -i, -s");
        action = c;
        break;
      default:
        std::fputs(kHelp, stderr);
        return EX_USAGE;
    }
  }
  if (action == 0 || optind != argc) {
    std::fputs(kHelp, stderr);
    return EX_USAGE;
  }
  if (action == 'i' && !mail::is_queue_id(argument))
    die(kProgram, EX_USAGE, "not a queue id: " + argument);
  if (action == 's' && argument.starts_with('@')) argument.erase(0, 1);
  const config::Config config = load_instance(kProgram, directory);
  QueueClient client(kProgram, config);
  if (action == 'p' || action == 'j') {
    list(client, action == 'j');
  } else {
    ipc::queue::Act act;
    act.request = 1;
    act.verb = ipc::queue::Verb::flush;
    act.all = action == 'f';
    if (action == 's') act.site = argument;
    if (action == 'i') act.queue_ids.push_back(argument);
    const auto done = client.ask(act, [](ipc::queue::FromQmgr&, std::vector<async::Fd>&) {});
    check(done);
    if (verbose)
      std::printf("%llu messages are tried now\n", static_cast<unsigned long long>(done.count));
  }
  if (std::fflush(stdout) != 0) return EX_IOERR;
  return 0;
}
