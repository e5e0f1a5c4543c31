"""``setwise train`` and ``setwise evaluate`` on images: a network trained on the measure beside one on cross-entropy.

:mod:`~setwise.app.images.comparison` trains both over several seeds, and :mod:`~setwise.app.images.reevaluation`
evaluates a stored run again. Needs ``pip install 'setwise[cli]'``.
"""
