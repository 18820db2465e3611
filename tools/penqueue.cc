/// penqueue: lists the queue and has messages tried now. Manual: man/penqueue.1. Called mailq it lists.
#include <getopt.h>
#include <sysexits.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/mail/queue_id.h"
#include "lib/service/as_account.h"
#include "tools/log_dump.h"
#include "tools/progress_bar.h"
#include "tools/queue_client.h"
#include "tools/queue_listing.h"
#include "tools/queue_selection.h"
#include "tools/spool_listing.h"

namespace {

using namespace pen;
using namespace pen::tools;

constexpr const char* kHelp =
    "usage: penqueue [-v] [-c DIR] -p | -j  [CHOICE ...] [ID ...] [QUEUE ...]\n"
    "       penqueue [-v] [-c DIR] -f | -i ID | -s SITE\n"
    "       penqueue [-c DIR] --spool [-p | -j] [FILE | NUMBER | ID ...]\n"
    "       penqueue [-v] [-c DIR] --log [FILE | DIR ...]\n"
    "       mailq [-C DIR]\n"
    "\n"
    "Lists the queue of a Penstock instance and has messages tried now.\n"
    "  -p       list, in the form of mailq; with IDs, only those messages\n"
    "  -j       list, one JSON object a line\n"
    "  -f       try every deferred message now\n"
    "  -i ID    try that message now\n"
    "  -s SITE  try the messages for that domain now\n"
    "  --spool  list the files that hold large messages, and whose they are; with arguments, only "
    "those\n"
    "  --log    print the files of the queue log as text (default: queue_log_directory), whether "
    "the mail\n"
    "           system runs or not; with -v every field. Exit status 65: something is damaged\n"
    "  -c DIR   the directory of main.cf (default: MAIL_CONFIG, else /etc/penstock)\n"
    "  -v       say what was done\n"
    "Only messages that every CHOICE fits are listed:\n";
constexpr const char* kHelpEnd =
    "and that are in one of the QUEUEs: incoming, active, deferred, hold, maildrop.\n"
    "  --help, --version\n";

constexpr const char* kProgram = "penqueue";

/// False: messages that were asked for by their ids are not there.
bool list(QueueClient& client, const ipc::queue::List& wanted, bool json) {
  std::set<std::string> missing(wanted.queue_ids.begin(), wanted.queue_ids.end());
  std::uint64_t count = 0, bytes = 0;
  ipc::queue::Entry whole;  // of a message with so many recipients that it comes in parts
  const auto done = client.ask(wanted, [&](ipc::queue::FromQmgr& m, std::vector<async::Fd>&) {
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
  if (!json && count == 0 && wanted.queue_ids.empty()) print("Mail queue is empty\n");
  if (wanted.filter != ipc::queue::Filter{}) return true;  // they may be there and not fit
  for (const auto& id : missing)
    std::fprintf(stderr, "%s: %s: no such message in the queue\n", kProgram, id.c_str());
  return missing.empty();
}

/// A domain, with @ in front or not, or what stands in brackets in place of one, with a port or not.
bool is_site(std::string_view text) {
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
  if (!literal && (text.starts_with('.') || text.find("..") != std::string_view::npos))
    return false;
  return std::ranges::all_of(text, [&](char c) {
    return ascii_alpha(c) || ascii_digit(c) || c == '.' || c == '-' || c == '_' ||
           (literal && c == ':') || static_cast<unsigned char>(c) >= 128;
  });
}

void usage(std::FILE* to) { std::fprintf(to, "%s%s%s", kHelp, Selection::help(), kHelpEnd); }

}  // namespace

int main(int argc, char** argv) {
  keep_group_for_the_socket(kProgram);
  const char* slash = std::strrchr(argv[0], '/');
  const bool mailq = std::string(slash != nullptr ? slash + 1 : argv[0]) == "mailq";
  std::vector<option> long_options(Selection::options().begin(), Selection::options().end());
  long_options.push_back({"help", no_argument, nullptr, 1});
  long_options.push_back({"version", no_argument, nullptr, 2});
  long_options.push_back({"log", no_argument, nullptr, 'L'});
  long_options.push_back({"spool", no_argument, nullptr, 'S'});
  long_options.push_back({nullptr, 0, nullptr, 0});
  Selection selection(kProgram);
  std::string directory, argument;
  int action = mailq ? 'p' : 0;
  bool verbose = false, spool = false;
  for (int c; (c = ::getopt_long(argc, argv, mailq ? "C:v" : "c:fi:jps:v", long_options.data(),
                                 nullptr)) != -1;) {
    if (selection.take(c, optarg)) continue;
    switch (c) {
      case 1:
        usage(stdout);
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
      case 'S':
        spool = true;
        break;
      case 'i':
      case 's':
        argument = optarg;
        [[fallthrough]];
      case 'p':
      case 'j':
      case 'f':
      case 'L':
        if (action != 0 && action != c)
          die(kProgram, EX_USAGE, "only one of -p, -j, -f, -i, -s, --log");
        action = c;
        break;
      default:
        usage(stderr);
        return EX_USAGE;
    }
  }
  const bool listing = action == 'p' || action == 'j';
  if (spool) {
    if ((action != 0 && !listing) || !selection.empty())
      die(kProgram, EX_USAGE, "--spool goes with -p or -j, and with nothing else");
    SpoolChoice choice;
    for (int i = optind; i < argc; ++i)
      if (!choice.take(argv[i]))
        die(kProgram, EX_USAGE,
            "neither a file of the spool nor a queue id: " + printable(argv[i]));
    const config::Config config = load_instance(kProgram, directory);
    QueueClient client(kProgram, config);
    const int status = list_spool(kProgram, client, std::move(choice), action == 'j');
    return std::fflush(stdout) != 0 ? EX_IOERR : status;
  }
  if (action == 'L' && selection.empty()) {
    std::vector<std::string> paths(argv + optind, argv + argc);
    if (!paths.empty()) return dump_log(kProgram, paths, verbose);
    const config::Config config = load_instance(kProgram, directory);
    paths.push_back(config.settings().queue_log_directory);
    // Names in there are mail_owner's making: root reads nothing that mail_owner could not.
    const service::AsAccount owner(
        service::mail_owner(config.settings()).value_or(service::Account{}));
    return dump_log(kProgram, paths, verbose);
  }
  ipc::queue::List wanted;
  wanted.request = 1;
  for (int i = optind; listing && i < argc; ++i) {
    if (selection.take_queue(argv[i])) continue;
    if (!mail::is_queue_id(argv[i]))
      die(kProgram, EX_USAGE, "neither a queue id nor a queue: " + printable(argv[i]));
    wanted.queue_ids.emplace_back(argv[i]);
    if (wanted.queue_ids.size() > ipc::queue::kMaxIds)
      die(kProgram, EX_USAGE, "too many queue ids at once");
  }
  wanted.filter = selection.filter();
  if (action == 0 || (!listing && (optind != argc || !selection.empty()))) {
    usage(stderr);
    return EX_USAGE;
  }
  if (action == 'i' && !mail::is_queue_id(argument))
    die(kProgram, EX_USAGE, "not a queue id: " + argument);
  if (action == 's' && !is_site(argument))
    die(kProgram, EX_USAGE, "not a destination: " + printable(argument) + " (a domain or [host])");
  if (action == 's' && argument.starts_with('@')) argument.erase(0, 1);
  const config::Config config = load_instance(kProgram, directory);
  QueueClient client(kProgram, config);
  int status = 0;
  if (listing) {
    if (!list(client, wanted, action == 'j')) status = EX_DATAERR;
  } else {
    ipc::queue::Act act;
    act.request = 1;
    act.verb = ipc::queue::Verb::flush;
    act.all = action == 'f';
    if (action == 's') act.site = argument;
    if (action == 'i') act.queue_ids.push_back(argument);
    ProgressBar bar("Flushing");
    const auto done = client.ask(act, [&bar](ipc::queue::FromQmgr& m, std::vector<async::Fd>&) {
      if (const auto* p = std::get_if<ipc::queue::Progress>(&m))
        bar.show(p->done, p->total, p->count);
    });
    bar.clear();
    if (done.outcome == ipc::queue::Outcome::not_found && action == 'i')
      die(kProgram, EX_DATAERR, argument + ": no such message in the queue");
    expect_ok(kProgram, done);
    if (verbose && act.all)
      std::printf("every deferred message is tried now\n");
    else if (verbose)
      std::printf("%llu messages are tried now\n", static_cast<unsigned long long>(done.count));
  }
  if (std::fflush(stdout) != 0) return EX_IOERR;
  return status;
}
