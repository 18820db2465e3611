/// pencat: shows a queued message: envelope, header, body. Manual: man/pencat.1.
#include <getopt.h>
#include <sysexits.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "lib/base/text.h"
#include "lib/mail/queue_id.h"
#include "tools/queue_client.h"

namespace {

using namespace pen;
using namespace pen::tools;

constexpr const char* kProgram = "pencat";
constexpr const char* kHelp =
    "usage: pencat [-c DIR] [-beh] [-q] ID ...\n"
    "\n"
    "Shows messages in the queue of a Penstock instance.\n"
    "  -e       envelope\n"
    "  -h       header\n"
    "  -b       body\n"
    "           none of these: all three\n"
    "  -q       accepted: ids are always looked up in the queue\n"
    "  -c DIR   the directory of main.cf (default: MAIL_CONFIG, else /etc/penstock)\n"
    "  --help, --version\n";

/// Content is stored with CRLF line ends; people read LF.
void print_lines(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    out += text[i];
  }
  std::fwrite(out.data(), 1, out.size(), stdout);
}

void print_envelope(const mail::Envelope& e) {
  std::printf("*** ENVELOPE RECORDS %s ***\n", e.queue_id.c_str());
  std::printf("message_size: %llu\n", static_cast<unsigned long long>(e.body.size));
  std::printf("arrival_time: %s\n", rfc5322_date(e.arrival).c_str());
  std::printf("sender: %s\n", printable(e.sender).c_str());
  if (!e.client.address.empty()) {
    std::printf("client: %s[%s]\n", printable(e.client.name).c_str(),
                printable(e.client.address).c_str());
  }
  for (const auto& r : e.recipients) {
    std::printf("original_recipient: %s\n", printable(r.shown_original()).c_str());
    std::printf("recipient: %s\n", printable(r.address).c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  static constexpr option kLong[] = {{"help", no_argument, nullptr, 1},
                                     {"version", no_argument, nullptr, 2},
                                     {nullptr, 0, nullptr, 0}};
  std::string directory;
  bool envelope = false, header = false, body = false;
  for (int c; (c = ::getopt_long(argc, argv, "c:behqv", kLong, nullptr)) != -1;) {
    switch (c) {
      case 1:
        std::fputs(kHelp, stdout);
        return 0;
      case 2:
        std::printf("pencat (Penstock) %s\n", PEN_VERSION);
        return 0;
      case 'c':
        directory = optarg;
        break;
      case 'e':
        envelope = true;
        break;
      case 'h':
        header = true;
        break;
      case 'b':
        body = true;
        break;
      case 'q':
      case 'v':
        break;
      default:
        std::fputs(kHelp, stderr);
        return EX_USAGE;
    }
  }
  if (optind == argc) {
    std::fputs(kHelp, stderr);
    return EX_USAGE;
  }
  if (!envelope && !header && !body) envelope = header = body = true;
  const config::Config config = load_instance(kProgram, directory);
  QueueClient client(kProgram, config);
  for (int i = optind; i < argc; ++i) {
    const std::string id = argv[i];
    if (!mail::is_queue_id(id)) die(kProgram, EX_USAGE, "not a queue id: " + printable(id));
    const auto done = client.ask(
        ipc::queue::Show{1, id}, [&](ipc::queue::FromQmgr& m, std::vector<async::Fd>& fds) {
          const auto* content = std::get_if<ipc::queue::Content>(&m);
          if (content == nullptr) return;
          std::string text(content->inline_body);
          if (!fds.empty()) {
            text.resize(content->envelope.body.size);
            std::size_t have = 0;
            while (have < text.size()) {
              const ssize_t n = ::pread(fds[0].get(), text.data() + have, text.size() - have,
                                        static_cast<off_t>(content->body_offset + have));
              if (n <= 0) die(kProgram, EX_IOERR, "cannot read the message's content");
              have += static_cast<std::size_t>(n);
            }
          }
          const auto split = std::min<std::size_t>(content->envelope.body.header_size, text.size());
          if (envelope) print_envelope(content->envelope);
          if (envelope && (header || body))
            std::printf("*** MESSAGE CONTENTS %s ***\n", id.c_str());
          if (header) print_lines(std::string_view(text).substr(0, split));
          if (body) print_lines(std::string_view(text).substr(split));
        });
    if (done.outcome == ipc::queue::Outcome::denied)
      die(kProgram, EX_NOPERM, "only root and the mail owner may do that");
    if (done.outcome != ipc::queue::Outcome::ok)
      die(kProgram, EX_DATAERR, id + ": no such message in the queue");
  }
  return 0;
}
