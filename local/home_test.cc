#include <pwd.h>
#include <unistd.h>

#include "local/agent_fixture.h"

using namespace pen;
using namespace pen::local;

namespace {

/// The user's home is in the scratch directory, and the user can write only there.
struct Home : Host {
  Home() {
    const passwd* nobody = ::getpwnam("nobody");
    BOOST_REQUIRE(nobody != nullptr);
    stranger = nobody->pw_uid;
    BOOST_REQUIRE(::chmod(scratch.path().c_str(), 0755) == 0);
    make_directory("home", uid);
    rules.mail_spool_directory = make_directory("spool", 0, 01777);
    rules.mailbox_size_limit = 0;
    rules.account = [this](const std::string& name) -> Result<std::optional<mailbox::Account>> {
      PEN_TRY_ASSIGN(auto found, mailbox::find_account(name));
      if (found && name == user) found->home = scratch.file("home");
      return found;
    };
  }
  std::string home(const std::string& name) const { return scratch.file("home/" + name); }
  void give(const std::string& path, uid_t to) const {
    if (::geteuid() == 0) BOOST_REQUIRE(::lchown(path.c_str(), to, 0) == 0);
  }
  std::string make_directory(const std::string& name, uid_t of, mode_t mode = 0755) const {
    const auto path = scratch.file(name);
    BOOST_REQUIRE(::mkdir(path.c_str(), 0700) == 0);
    BOOST_REQUIRE(::chmod(path.c_str(), mode) == 0);
    give(path, of);
    return path;
  }
  /// Makes a file that everybody may write: its mode alone would let the delivery in.
  std::string make_file(const std::string& name, uid_t of) {
    const auto path = scratch.write(name, "precious\n");
    BOOST_REQUIRE(::chmod(path.c_str(), 0666) == 0);
    give(path, of);
    return path;
  }
  void make_link(const std::string& to, const std::string& name, uid_t of) const {
    BOOST_REQUIRE(::symlink(to.c_str(), home(name).c_str()) == 0);
    give(home(name), of);
  }
  static std::string content(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream all;
    all << in.rdbuf();
    return all.str();
  }
  mail::DeliveryStatus mail() { return deliver(user + "@here.example"); }
  void refused(const std::string& what) {
    const auto s = mail();
    BOOST_TEST((s.action == mail::Action::deferred), what + ": " + s.text);
  }
  uid_t stranger = 0;
};

const std::string kMail = "Subject: x\n\nbody\n";

}  // namespace

BOOST_FIXTURE_TEST_SUITE(local_home, Home)

BOOST_AUTO_TEST_CASE(forward_files_of_the_home_directory_are_found_as_forward_path_has_them) {
  rules.forward_filter = "+/-_.abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  rules.forward_paths = {"$home/.forward${recipient_delimiter}${extension}", "$home/.forward"};
  const auto to = [&](const std::string& address) {
    outbox.sent.clear();
    const auto s = deliver(address + "@here.example");
    return outbox.sent.empty() ? s.text : outbox.sent[0].envelope.recipients.at(0).address;
  };
  BOOST_TEST(to(user) == "delivered to mailbox");
  forward_file("home/.forward", "far@x.example\n");
  forward_file("home/.forward+lists", "lists@x.example\n");
  BOOST_TEST(to(user) == "far@x.example");
  BOOST_TEST(to(user + "+lists") == "lists@x.example");
  BOOST_TEST(to(user + "+other") == "far@x.example");
  make_directory("home/mail", uid);
  forward_file("home/mail/fwd", "deep@x.example\n");
  rules.forward_paths = {"$home/mail/fwd"};
  BOOST_TEST(to(user) == "deep@x.example");
}

BOOST_AUTO_TEST_CASE(home_mailbox_is_a_maildir_or_a_file_below_the_home_directory) {
  rules.home_mailbox = "Maildir/";
  BOOST_TEST(mail().text == "delivered to maildir");
  BOOST_REQUIRE(fs::exists(home("Maildir/new")));
  std::vector<fs::path> found;
  for (const auto& e : fs::directory_iterator(home("Maildir/new"))) found.push_back(e.path());
  BOOST_REQUIRE_EQUAL(found.size(), 1U);
  BOOST_TEST(content(found[0].string()).ends_with(kMail));
  rules.home_mailbox = "mail/box";
  BOOST_TEST(mail().text == "delivered to mailbox");
  BOOST_TEST(mail().text == "delivered to mailbox");
  const auto got = content(home("mail/box"));
  BOOST_TEST(got.starts_with("From ada@sender.example  "));
  BOOST_TEST(got.contains(kMail + "\nFrom ada@sender.example  "));
  for (const auto* name : {"mail/box", "Maildir", "mail"}) {
    struct stat st{};
    BOOST_REQUIRE(::stat(home(name).c_str(), &st) == 0);
    BOOST_TEST((st.st_mode & 0777) == (S_ISDIR(st.st_mode) ? 0700U : 0600U), name);
    BOOST_TEST(st.st_uid == uid, name);
  }
  BOOST_TEST(fs::is_empty(scratch.file("spool")));
  rules.mail_spool_directory += "/";  // a Maildir there comes first
  BOOST_TEST(mail().text == "delivered to maildir");
  BOOST_TEST(content(home("mail/box")) == got);
  rules.home_mailbox = "Maildir/";
  BOOST_TEST(mail().text == "delivered to maildir");
  BOOST_TEST(std::distance(fs::directory_iterator(home("Maildir/new")), fs::directory_iterator()) == 2);
  rules.mail_spool_directory.pop_back();
  rules.home_mailbox = "../box";
  refused("a way out of the home directory");
  BOOST_TEST(!fs::exists(scratch.file("box")));
}

BOOST_AUTO_TEST_CASE(a_mailbox_file_in_the_home_directory_is_never_a_link) {
  rules.home_mailbox = "mbox";
  std::vector<std::string> victims = {make_file("home/own", uid)};
  if (::geteuid() == 0) {
    victims.push_back(make_file("roots", 0));
    victims.push_back(make_file("strangers", stranger));
  }
  for (const bool strict : {true, false}) {
    rules.strict_ownership = strict;
    for (const auto& victim : victims) {
      for (const uid_t of : {uid, stranger}) {
        make_link(victim, "mbox", of);
        refused("link to " + victim);
        fs::remove(home("mbox"));
      }
      fs::create_hard_link(victim, home("mbox"));
      refused("hard link of " + victim);
      fs::remove(home("mbox"));
      BOOST_TEST(content(victim) == "precious\n", victim);
    }
    make_link(home("made"), "mbox", uid);
    refused("link to nothing");
    fs::remove(home("mbox"));
    BOOST_TEST(!fs::exists(home("made")));
  }
  BOOST_TEST(mail().text == "delivered to mailbox");
}

BOOST_AUTO_TEST_CASE(a_file_that_a_forward_file_names_by_a_tilde_is_never_a_link) {
  rules.forward_paths = {forward_file("fwd", "~/mbox\n")};
  const auto own = make_file("home/own", uid);
  const auto roots = make_file("roots", ::geteuid() == 0 ? 0 : uid);
  for (const auto& victim : {own, roots}) {
    make_link(victim, "mbox", uid);
    refused("link to " + victim);
    fs::remove(home("mbox"));
    fs::create_hard_link(victim, home("mbox"));
    refused("hard link of " + victim);
    fs::remove(home("mbox"));
    BOOST_TEST(content(victim) == "precious\n");
  }
  BOOST_TEST(mail().text == "delivered to file: " + home("mbox"));
}

BOOST_AUTO_TEST_CASE(a_link_of_the_user_to_a_directory_of_his_own_is_followed) {
  make_directory("disk", uid);
  make_link(scratch.file("disk"), "Maildir", uid);
  rules.home_mailbox = "Maildir/";
  BOOST_TEST(mail().text == "delivered to maildir");
  BOOST_TEST(!fs::is_empty(scratch.file("disk/new")));
  rules.home_mailbox = "Maildir/box";
  BOOST_TEST(mail().text == "delivered to mailbox");
  BOOST_TEST(content(scratch.file("disk/box")).contains(kMail));
}

BOOST_AUTO_TEST_CASE(a_directory_of_somebody_else_gets_nothing_by_a_link_nor_a_users_by_that_of_another) {
  if (::geteuid() != 0) return;  // only root can make files of other users
  make_directory("roots", 0, 0777);
  make_directory("strangers", stranger, 0777);
  make_directory("own", uid);
  const auto tried = [&](const std::string& directory, uid_t link) {
    const auto path = scratch.file(directory);
    make_link(path, "Maildir", link);
    for (const auto* form : {"Maildir/", "Maildir/below/", "Maildir/box"}) {
      rules.home_mailbox = form;
      refused(directory + " as " + form);
      rules.home_mailbox.clear();
      rules.forward_paths = {forward_file("fwd", "~/" + std::string(form) + "\n")};
      refused(directory + " as ~/" + form);
      rules.forward_paths.clear();
    }
    BOOST_TEST(fs::is_empty(path), directory);
    fs::remove(home("Maildir"));
  };
  for (const bool strict : {true, false}) {
    rules.strict_ownership = strict;
    tried("roots", uid);
    tried("roots", 0);
    tried("strangers", uid);
    tried("strangers", stranger);
    tried("own", stranger);
  }
}

BOOST_AUTO_TEST_CASE(a_maildir_that_somebody_else_made_in_a_home_directory_is_not_used) {
  if (::geteuid() != 0) return;
  const auto planted = make_directory("home/Maildir", stranger, 0777);
  rules.home_mailbox = "Maildir/";
  refused("a Maildir of a stranger");
  BOOST_TEST(fs::is_empty(planted));
  rules.strict_ownership = false;
  BOOST_TEST(mail().text == "delivered to maildir");
}

BOOST_AUTO_TEST_CASE(mailbox_size_limit_bounds_every_file_that_mail_is_put_into) {
  const auto fills = [&](const std::string& to, const std::string& path) {
    rules.mailbox_size_limit = 0;
    BOOST_TEST((deliver(to).action == mail::Action::delivered), to);
    const auto one = content(path);
    BOOST_REQUIRE(!one.empty());
    rules.mailbox_size_limit = one.size() + one.size() / 2;
    const auto s = deliver(to);
    BOOST_TEST((s.action == mail::Action::failed), to + ": " + s.text);
    BOOST_TEST(s.dsn == "5.2.2", to);
    BOOST_TEST(content(path) == one, to);
    rules.mailbox_size_limit = 2 * one.size();
    BOOST_TEST((deliver(to).action == mail::Action::delivered), to);
  };
  rules.home_mailbox = "mbox";
  fills(user + "@here.example", home("mbox"));
  rules.home_mailbox.clear();
  rules.mail_spool_directory = scratch.file("spool");
  fills(user + "@here.example", scratch.file("spool/" + user));
  rules.default_privs = user;
  aliases = alias("archive", home("archive"));
  fills("archive@here.example", home("archive"));
  rules.forward_paths = {forward_file("fwd", "~/kept\n")};
  fills(user + "@here.example", home("kept"));
}

BOOST_AUTO_TEST_SUITE_END()
