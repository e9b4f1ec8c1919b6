# What keeps files, addresses and settings from doing harm.

# a unix socket replaces a dead socket of this user, nothing else
c_mutation(F1 server/wire/address.c test_address:*file_is_left* [[    if (!S_ISSOCK(found.st_mode))]] [[    if (false)]])
c_mutation(F1 server/wire/address.c test_address:*file_is_left* [[lstat(path, &found) != 0)
        return errno]] [[stat(path, &found) != 0)
        return errno]])
c_mutation(F1 server/wire/address.c test_address:*stale* [[        unlink(path);]] [[        ;]])
c_mutation(F1 server/wire/address.c test_address:*stale* [[ && errno == ECONNREFUSED]] [[ || errno != ECONNREFUSED]])
c_mutation(F1 server/wire/address.c test_address:*another_users* [[    if (found.st_uid != geteuid())
        return]] [[    if (false)
        return]])
c_mutation(F1 server/wire/address.c test_address:*another_users* [[found.st_uid != geteuid() && found.st_uid != 0]] [[false]])
c_mutation(F1 server/wire/address.c test_address:*others_may_write* [[(found.st_mode & S_IWOTH) && ]] [[false && ]])
c_mutation(F1 server/wire/address.c test_address:*others_may_write* [[ && !(found.st_mode & S_ISVTX)]] "")
c_mutation(F1 server/wire/address.c test_address:*stale* [[umask(S_IXUSR | S_IRWXG | S_IRWXO);]] [[umask(0);]])
c_mutation(F1 server/wire/address.c test_address:*no_path* [[strlen(path) >= PATH_BYTES]] [[strlen(path) > PATH_BYTES]])

# the data directory is this user's alone, no link in it is followed, the data is closed to others
c_mutation(F2 server/store/dirlock.c test_store_embedded:*not_followed [[ | O_NOFOLLOW | O_CLOEXEC, 0600);]] [[ | O_CLOEXEC, 0600);]])
c_mutation(F2 server/store/dirlock.c test_store_embedded:*not_followed [[!S_ISREG(found.st_mode) || ]] "")
c_mutation(F2 server/store/dirlock.c test_store_embedded:*directory_of_others*
  [[else if (found.st_mode & (S_IWGRP | S_IWOTH))]] [[else if (found.st_mode & S_IWOTH)]])
c_mutation(F2 server/store/dirlock.c test_store_embedded:*directory_of_others*
  [[else if (found.st_mode & (S_IWGRP | S_IWOTH))]] [[else if (found.st_mode & S_IWGRP)]])
c_mutation(F2 server/store/dirlock.c test_store_embedded:*directory_of_others*
  [[    else if (found.st_uid != geteuid())]] [[    else if (false)]])
c_mutation(F2 server/store/dirlock.c test_store_embedded:*alone [[fd >= 0 && fchmod(fd, 0700) != 0]] [[fd >= 0 && false]])
c_mutation(F2 server/store/embedded.c test_store_embedded:*alone [[    umask(S_IRWXG | S_IRWXO); /*]] [[    /*]])
