r"""Measures of a set that is spread over the ranks of a process group: exact, as on one process.

A loss that each rank computes on its own part is the loss of another set, and the mean of such losses has another
gradient. Here the parts are put together first. Measures of ranking gather scores, labels and weights (never features):
the sizes first, then one block of bytes, so that parts may be of different sizes or empty. Measures of counts add up
their counts, a few numbers. The value is then the same on every rank.

**Gradients.** Let L be the loss of the whole set and s_r the scores of rank r. Distributed training averages the
gradients of the parameters over W ranks (DDP, FSDP, and what is built on them). So on rank r the loss has the gradient

    W dL/ds_r,    and    (1/W) sum_r (W dL/ds_r) (ds_r/dtheta) = dL/dtheta,

the gradient of one process that sees everything. Whoever adds gradients up instead says so: ``Ranks(gradients="sum")``.
Every rank has all of dL/ds, so the backward pass sends nothing; what is done to the loss afterwards (a factor, a sum
with other losses) must be the same on every rank. Second derivatives are those of one rank's own part only, and are
refused.

**When.** Every loss takes ``process_group``: ``None``, the default, uses the default process group where there is one
and gradients are recorded; a ``ProcessGroup`` is used always, under ``no_grad`` too; ``False`` never; :class:`Ranks`
says more. All ranks of the group must then call the loss equally often, those without rows with empty tensors. Where
reading the input fails on one of them, whatever the reason, all raise; so they do where they call different losses.
Inside ``DistributedDataParallel.join()`` ranks that have run out of batches are an error on the others, after ten
seconds.

>>> import torch, setwise
>>> loss = setwise.AUCLoss()  # on one process the same as AUCLoss(process_group=False)
>>> loss(torch.zeros(4), torch.tensor([0, 1, 0, 1]))
tensor(1.)
"""

from setwise.distributed.ranks import ProcessGroupLike, Ranks, active, check_process_group, gather

__all__ = ["ProcessGroupLike", "Ranks", "active", "check_process_group", "gather"]
