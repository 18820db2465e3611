/// pencat: shows a queued message: envelope, header, body. Manual: man/pencat.1.
#include <getopt.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

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

/// Content is stored with CRLF line ends; people read LF. Takes it in pieces.
class Lines {
 public:
  void print(std::string_view text) {
    std::string out;
    out.reserve(text.size() + 1);
    for (const char c : text) {
      if (held_ && c != '\n') out += '\r';
      held_ = c == '\r';
      if (!held_) out += c;
    }
    tools::print(out);
  }
  void end() {
    if (held_) tools::print("\r");
    held_ = false;
  }

 private:
  bool held_ = false;  // a CR that may belong to a line end
};

/// Bytes [from, end) of the content.
void print_content(const ipc::queue::Content& content, const std::vector<async::Fd>& fds,
                   std::uint64_t from, std::uint64_t end) {
  Lines lines;
  if (fds.empty()) {
    lines.print(content.inline_body.substr(std::min<std::size_t>(from, content.inline_body.size()),
                                           end - from));
    lines.end();
    return;
  }
  std::string piece(256 * 1024, '\0');
  while (from < end) {
    const std::size_t want = std::min<std::uint64_t>(piece.size(), end - from);
    const ssize_t n =
        ::pread(fds[0].get(), piece.data(), want, static_cast<off_t>(content.body_offset + from));
    if (n <= 0) die(kProgram, EX_IOERR, "cannot read the message's content");
    lines.print(std::string_view(piece).substr(0, static_cast<std::size_t>(n)));
    from += static_cast<std::uint64_t>(n);
  }
  lines.end();
}

void print_envelope(const mail::Envelope& e) {
  std::printf("*** ENVELOPE RECORDS %s ***\n", e.queue_id.c_str());
  std::printf("message_size: %llu\n", static_cast<unsigned long long>(e.body.size));
  std::printf("arrival_time: %s\n", rfc5322_date(e.arrival).c_str());
  std::printf("sender: %s\n", printable(e.sender).c_str());
  if (e.requiretls != mail::RequireTls::unspecified)
    std::printf("requiretls: %s\n", e.requiretls == mail::RequireTls::yes ? "yes" : "no");
  if (!e.filter.empty()) std::printf("filter: %s\n", printable(e.filter).c_str());
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
  std::vector<std::string> missing;
  for (int i = optind; i < argc; ++i) {
    if (!mail::is_queue_id(argv[i]))
      die(kProgram, EX_USAGE, "not a queue id: " + printable(argv[i]));
    missing.emplace_back(argv[i]);
    if (missing.size() > ipc::queue::kMaxIds) die(kProgram, EX_USAGE, "too many queue ids at once");
  }
  const config::Config config = load_instance(kProgram, directory);
  QueueClient client(kProgram, config);
  std::vector<mail::Recipient> recipients;  // of a message with so many that they come in parts
  const auto done = client.ask(
      ipc::queue::Show{1, {}, missing}, [&](ipc::queue::FromQmgr& m, std::vector<async::Fd>& fds) {
        auto* content = std::get_if<ipc::queue::Content>(&m);
        if (content == nullptr) return;
        mail::Envelope& e = content->envelope;
        std::move(e.recipients.begin(), e.recipients.end(), std::back_inserter(recipients));
        if (content->more) return;
        e.recipients = std::exchange(recipients, {});
        const std::string id = e.queue_id;
        const std::uint64_t split = std::min<std::uint64_t>(e.body.header_size, e.body.size);
        if (envelope) print_envelope(e);
        if (envelope && (header || body)) print("*** MESSAGE CONTENTS " + id + " ***\n");
        if (header && body) {
          print_content(*content, fds, 0, e.body.size);
        } else if (header) {
          print_content(*content, fds, 0, split);
        } else if (body) {
          print_content(*content, fds, split, e.body.size);
        }
        if (envelope)
          print("*** HEADER EXTRACTED " + id + " ***\n*** MESSAGE FILE END " + id + " ***\n");
        std::erase(missing, id);
      });
  using ipc::queue::Outcome;
  if (std::fflush(stdout) != 0) return EX_IOERR;
  if (done.outcome == Outcome::denied)
    die(kProgram, EX_NOPERM, "only root and the mail owner may do that");
  if (done.outcome == Outcome::failed) die(kProgram, EX_SOFTWARE, "failed: " + done.text);
  for (const auto& id : missing)
    std::fprintf(stderr, "%s: %s: no such message in the queue\n", kProgram, id.c_str());
  return missing.empty() ? 0 : EX_DATAERR;
}
